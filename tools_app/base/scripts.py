"""What runs inside Redis: each script is one step that nothing comes between, by the clock of Redis.

Every key expires by itself. Fractions are sent as text, since Redis cuts those of replies off.
"""

from __future__ import annotations

from typing import Final

BUCKET: Final = "bucket"
ENTER: Final = "enter"
LEAVE: Final = "leave"
CLAIM: Final = "claim"
SETTLE: Final = "settle"

_NOW: Final = "local time = redis.call('TIME')\nlocal now = time[1] + time[2] / 1000000\n"

SCRIPTS: Final = {
    # `Bucket` of sdk/policies: full at first, and again when it expires.
    # ARGV: most, seconds, tokens to take, tokens to owe. Returns the tokens that are left, and the seconds to wait.
    BUCKET: _NOW
    + """
local most, seconds, take, owe = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local per_second = most / seconds
local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, wait = tonumber(held[1]) or most, 0
tokens = math.min(most, tokens + math.max(0, now - (tonumber(held[2]) or now)) * per_second)
if tokens >= take then
  tokens = tokens - take
else
  wait = (take - tokens) / per_second
end
tokens = math.max(tokens - owe, -most)
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'at', string.format('%.17g', now))
redis.call('PEXPIRE', KEYS[1], math.ceil((most - tokens) / per_second * 1000) + 1000)
return {string.format('%.9f', tokens), string.format('%.9f', wait)}
""",
    # `Breaker.admit` and a place in the bulkhead, which lapses by itself if its process is killed.
    # KEYS: circuit, places. ARGV: places, name of this one, its milliseconds, rest of the breaker.
    # Returns 'open', 'full', 'in' or 'probe'; for how long the circuit has been open; the seconds to wait.
    ENTER: _NOW
    + """
local most, milliseconds, rest = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local circuit = redis.call('HMGET', KEYS[1], 'opened', 'probing')
local opened, probing = tonumber(circuit[1]), tonumber(circuit[2])
local since, wait = opened and now - opened or 0, 0
if opened then
  wait = math.max(opened, probing or 0) + rest - now
  if wait > 0 then
    return {'open', string.format('%.9f', since), string.format('%.9f', wait)}
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.17g', now))
if redis.call('ZCARD', KEYS[2]) >= most then
  return {'full', '0', '0'}
end
redis.call('ZADD', KEYS[2], string.format('%.17g', now + milliseconds / 1000), ARGV[2])
redis.call('PEXPIRE', KEYS[2], math.max(milliseconds, redis.call('PTTL', KEYS[2])))
if opened then
  redis.call('HSET', KEYS[1], 'probing', string.format('%.17g', now), 'prober', ARGV[2])
  return {'probe', string.format('%.9f', since), '0'}
end
return {'in', '0', '0'}
""",
    # The end of a call: its place, and its outcome ('good', 'bad', or '' if it says nothing of the upstream).
    # Outcomes are counted in a row, and in slices of ten seconds for the share of failures.
    # KEYS: circuit, places. ARGV: name of the place, outcome, then the numbers of the breaker.
    # Returns 'open' or 'closed', and for how long the circuit has been open.
    LEAVE: _NOW
    + """
local outcome = ARGV[2]
local in_a_row, share, enough = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local window, rest = tonumber(ARGV[6]), tonumber(ARGV[7])
redis.call('ZREM', KEYS[2], ARGV[1])
local circuit = redis.call('HMGET', KEYS[1], 'opened', 'prober')
local opened, probe = tonumber(circuit[1]), circuit[2] == ARGV[1]
local function open()
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'opened', string.format('%.17g', now))
  redis.call('PEXPIRE', KEYS[1], (window + 2 * rest) * 1000)
  return {'open', '0'}
end
if opened then
  -- A call that began before the circuit opened says nothing about the present.
  if not probe then
    return {'open', string.format('%.9f', now - opened)}
  elseif outcome == 'bad' then
    return open()
  elseif outcome == '' then
    redis.call('HDEL', KEYS[1], 'probing', 'prober')
    return {'open', string.format('%.9f', now - opened)}
  end
  redis.call('DEL', KEYS[1])
end
if outcome == '' then
  return {'closed', '0'}
end
local slice = math.floor(now / 10)
redis.call('HINCRBY', KEYS[1], outcome .. slice, 1)
redis.call('PEXPIRE', KEYS[1], (window + 2 * rest) * 1000)
local row, counted = 0, {good = 0, bad = 0}
if outcome == 'bad' then
  row = redis.call('HINCRBY', KEYS[1], 'row', 1)
else
  redis.call('HSET', KEYS[1], 'row', 0)
  -- Seldom, so that old slices do not accumulate.
  if redis.call('HLEN', KEYS[1]) <= 4 * window / 10 + 8 then
    return {'closed', '0'}
  end
end
local fields = redis.call('HGETALL', KEYS[1])
for index = 1, #fields, 2 do
  local kind, of = string.match(fields[index], '^(%a+)(%d+)$')
  if kind and slice - tonumber(of) < window / 10 then
    counted[kind] = counted[kind] + tonumber(fields[index + 1])
  elseif kind then
    redis.call('HDEL', KEYS[1], fields[index])
  end
end
local all = counted.good + counted.bad
if outcome == 'bad' and (row >= in_a_row or (all >= enough and counted.bad >= share * all)) then
  return open()
end
return {'closed', '0'}
""",
    # Single flight. KEYS: answer, claim. ARGV: name of the claim, its milliseconds.
    # Returns 'found' with the answer and its milliseconds, 'run' to who has the claim, or 'wait'.
    CLAIM: """
local answer = redis.call('GET', KEYS[1])
if answer then
  return {'found', answer, redis.call('PTTL', KEYS[1])}
end
if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {'run'}
end
return {'wait'}
""",
    # KEYS: answer, claim. ARGV: name of the claim, the answer or '', its milliseconds.
    SETTLE: """
if ARGV[2] ~= '' then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
if redis.call('GET', KEYS[2]) == ARGV[1] then
  redis.call('DEL', KEYS[2])
end
return {}
""",
}
