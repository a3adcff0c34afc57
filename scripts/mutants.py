"""Breaks the code on purpose, one small change at a time, and refuses tests that notice too few of the changes.

Which modules, and by which tests, stands in pyproject.toml under tool.mutmut. mutmut changes what stands in
functions; constants, patterns and attributes of classes stay as they are. What it makes is left in mutants/.
"""

import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
MADE = ROOT / "mutants"
MUTMUT = str(Path(sys.executable).with_name("mutmut"))
LEAST = 80.0
# A mutant that runs into an endless loop was noticed as well.
NOTICED = {"killed", "timeout"}


def run() -> bool:
    """Try every mutant afresh: results that mutmut remembers know nothing of a test that got weaker."""
    shutil.rmtree(MADE, ignore_errors=True)
    MADE.mkdir()
    log = MADE / "run.log"
    with log.open("w") as output:
        done = subprocess.run([MUTMUT, "run"], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        print(log.read_text()[-3000:], file=sys.stderr)
    return done.returncode == 0


def read_results() -> dict[str, str]:
    """What became of each mutant, by its name."""
    command = [MUTMUT, "results", "--all", "true"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(line.strip().split(": ", 1) for line in listed.splitlines() if ": " in line)


def judge(results: dict[str, str], modules: list[str]) -> bool:
    """Print what became of the mutants, and tell whether enough were noticed in each module."""
    made: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    survivors: list[str] = []
    for name, result in results.items():
        module = name.rpartition(".")[0].replace(".", "/") + ".py"
        made[module] += 1
        if result in NOTICED:
            killed[module] += 1
        else:
            survivors.append(f"  {name}  ({result})")

    scores = {module: 100 * killed[module] / made[module] if made[module] else 0.0 for module in modules}
    print(f"{'module':<26} {'mutants':>7} {'killed':>7} {'survived':>8} {'score':>8}")
    for module, score in scores.items():
        print(f"{module:<26} {made[module]:>7} {killed[module]:>7} {made[module] - killed[module]:>8} {score:>6.1f} %")
    if survivors:
        print("survivors, to be looked at with `.venv/bin/mutmut show NAME`:", *survivors, sep="\n")
    enough = min(scores.values()) >= LEAST
    print(f"at least {LEAST:.0f} % of each module's mutants must be killed: {'they are' if enough else 'too few are'}")
    return enough


def main() -> int:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    if not run():
        return 1
    return 0 if judge(read_results(), settings["only_mutate"]) else 1


if __name__ == "__main__":
    sys.exit(main())
