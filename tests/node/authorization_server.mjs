// An authorization server that others wrote. Whoever comes has signed in, and consents to everything.
// Prints its address. `GET /valid?token=…` says whether an access token is valid; `POST /forget` forgets all clients.
import http from "node:http";
import { Provider } from "oidc-provider";

const RESOURCE = process.argv[2];
const server = http.createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const clients = new Set();

const provider = new Provider(issuer, {
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    revocation: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => RESOURCE,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: "notes", accessTokenFormat: "opaque", accessTokenTTL: 600 }),
    },
  },
  clients: [
    {
      client_id: "robot",
      client_secret: "a-secret-of-a-robot",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
  ],
  cookies: { keys: ["of a test"] },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});

provider.on("registration_create.success", (_, client) => clients.add(client.clientId));

async function consent(request, response) {
  const { params, prompt, session } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") return { login: { accountId: "somebody" } };
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope = [], missingResourceScopes = {} } = prompt.details;
  grant.addOIDCScope(["openid", ...missingOIDCScope].join(" "));
  for (const [resource, scopes] of Object.entries({ [RESOURCE]: ["notes"], ...missingResourceScopes })) {
    grant.addResourceScope(resource, scopes.join(" "));
  }
  return { consent: { grantId: await grant.save() } };
}

const callback = provider.callback();
server.on("request", async (request, response) => {
  const url = new URL(request.url, issuer);
  try {
    if (url.pathname.startsWith("/interaction/")) {
      await provider.interactionFinished(request, response, await consent(request, response));
    } else if (url.pathname === "/valid") {
      const token =
        (await provider.AccessToken.find(url.searchParams.get("token"))) ??
        (await provider.ClientCredentials.find(url.searchParams.get("token")));
      response.writeHead(token?.isValid ? 200 : 401).end();
    } else if (url.pathname === "/forget") {
      await Promise.all([...clients].map((id) => provider.Client.adapter.destroy(id)));
      response.writeHead(204).end();
    } else {
      callback(request, response);
    }
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});
console.log(issuer);
process.stdin.resume().on("end", () => process.exit(0));
