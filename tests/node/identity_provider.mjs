// An OpenID Connect provider that others wrote. Whoever comes has signed in as the person of the arguments.
// Prints its address. `PUT /groups` with a JSON list changes the groups of that person.
import http from "node:http";
import { Provider } from "oidc-provider";

const [redirect, ...groups] = process.argv.slice(2);
const server = http.createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const person = { sub: "u-1", preferred_username: "anna", email: "a@b.example", email_verified: true, groups };

const provider = new Provider(issuer, {
  features: { devInteractions: { enabled: false } },
  // Claims are at the userinfo endpoint, as the specification has it for the code flow.
  claims: { profile: ["preferred_username"], email: ["email", "email_verified"], groups: ["groups"] },
  scopes: ["openid", "profile", "email", "groups"],
  clients: [
    {
      client_id: "toolhub",
      client_secret: "a-secret-of-a-client",
      redirect_uris: [redirect],
      token_endpoint_auth_method: "client_secret_basic",
    },
  ],
  pkce: { required: () => true },
  cookies: { keys: ["of a test"] },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  clientAuthMethods: ["client_secret_basic"],
  findAccount: (_, id) => ({ accountId: id, claims: () => person }),
});

async function consent(request, response) {
  const { params, prompt, session } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") return { login: { accountId: person.sub } };
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope("openid profile email groups");
  return { consent: { grantId: await grant.save() } };
}

const callback = provider.callback();
server.on("request", async (request, response) => {
  try {
    if (request.url.startsWith("/interaction/")) {
      await provider.interactionFinished(request, response, await consent(request, response));
    } else if (request.url === "/groups") {
      let body = "";
      for await (const part of request) body += part;
      person.groups = JSON.parse(body);
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
