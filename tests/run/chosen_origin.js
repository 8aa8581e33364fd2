// An origin over https that chooses HTTP/2. Each argument behind the certificate and the key names what a listener does to
// requests in HTTP/2; the output has the ports. Answers name the protocol and the number of connections in HTTP/2.
const { createSecureServer, constants } = require('http2');
const { readFileSync } = require('fs');
const [cert, key, ...kinds] = process.argv.slice(2);

let refused = 0;
const faults = {
  none: () => false,
  refusesOnce: stream => refused++ === 0 && stream.close(constants.NGHTTP2_REFUSED_STREAM),
  refuses: stream => stream.close(constants.NGHTTP2_REFUSED_STREAM),
  demandsOld: stream => stream.close(constants.NGHTTP2_HTTP_1_1_REQUIRED),
  fails: stream => stream.close(constants.NGHTTP2_INTERNAL_ERROR),
  // It does not process the second request of a connection.
  leaves: stream => stream.id > 1 && stream.session.goaway(constants.NGHTTP2_NO_ERROR, 1),
  cuts: stream => stream.session.destroy(),
  misdirects: stream => stream.respond({ ':status': 421 }, { endStream: true }),
};

const listen = kind => new Promise(done => {
  let sessions = 0;
  const server = createSecureServer({ cert: readFileSync(cert), key: readFileSync(key), allowHTTP1: true });
  server.on('session', () => sessions++);
  server.on('sessionError', () => {});
  server.on('request', (request, response) => {
    if (request.httpVersion === '2.0') {
      request.stream.on('error', () => {});
      if (faults[kind](request.stream) !== false) return;
    }
    response.setHeader('Cache-Control', 'no-store');
    setTimeout(() => response.end(`${request.httpVersion} ${sessions}\n`), request.url === '/slow' ? 100 : 0);
  });
  server.listen(0, '127.0.0.1', () => done(server.address().port));
});

Promise.all(kinds.map(listen)).then(ports => console.log(ports.join(' ')));
