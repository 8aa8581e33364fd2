// Loaded by each Node.js of the command. Older versions have no NODE_USE_ENV_PROXY: this makes https and fetch use the proxy.
"use strict";
const { env, versions } = process;
const [major, minor] = versions.node.split(".").map(Number);
const reads = major > 24 || (major === 24 && minor >= 5) || (major === 22 && minor >= 21);
if (env.HTTPS_PROXY && !reads) {
  const http = require("http");
  const https = require("https");
  const tls = require("tls");
  const net = require("net");
  const proxy = new URL(env.HTTPS_PROXY);

  const never = (env.NO_PROXY || env.no_proxy || "").toLowerCase().split(/[\s,]+/).filter(Boolean);
  const isDirect = (host) =>
    never.some((name) => name === "*" || host === name || host.endsWith("." + name.replace(/^\*?\./, "")));

  // A daemon may outlive the run and its proxy: it goes on without.
  const tunnel = (host, port, done) => {
    const path = `${host.includes(":") ? `[${host}]` : host}:${port}`;
    const request = http.request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path, agent: false });
    request.once("connect", ({ statusCode }, socket) => {
      if (statusCode === 200) return done(null, socket);
      socket.destroy();
      done(new Error(`the proxy answers ${statusCode} to CONNECT ${path}`));
    });
    request.once("error", (error) => error.code === "ECONNREFUSED" ? done(null, undefined) : done(error)).end();
  };

  class TunnelAgent extends https.Agent {
    createConnection(options, done) {
      const host = options.host || "localhost";
      if (isDirect(host)) return super.createConnection(options);
      tunnel(host, options.port || 443, (error, socket) =>
        error ? done(error) : done(null, super.createConnection({ ...options, socket })));
    }
  }
  https.globalAgent = new TunnelAgent(https.globalAgent.options);

  // The dispatcher of fetch, which comes with its first use. One that the program has set stays.
  const DISPATCHER = Symbol.for("undici.globalDispatcher.1");
  const connect = ({ hostname, port, protocol, servername }, done) => {
    const isTls = protocol === "https:";
    const host = hostname.replace(/^\[|\]$/g, "");
    const start = (error, socket) => {
      if (error) return done(error, null);
      const options = { host, port: port || (isTls ? 443 : 80), socket, servername, ALPNProtocols: ["http/1.1"] };
      const connected = isTls ? tls.connect(options) : net.connect(options);
      connected.once("error", (error) => done(error, null));
      connected.once(isTls ? "secureConnect" : "connect", () => done(null, connected));
    };
    if (isTls && !isDirect(host)) tunnel(host, port || 443, start);
    else start(null, undefined);
  };
  const { fetch } = globalThis;
  if (fetch) {
    globalThis.fetch = function (...request) {
      if (!globalThis[DISPATCHER]) {
        // The first use of any of its classes makes the dispatcher.
        void globalThis.Response;
        const Agent = globalThis[DISPATCHER]?.constructor;
        if (Agent) globalThis[DISPATCHER] = new Agent({ connect });
      }
      return fetch.apply(this, request);
    };
  }
}
