// Passes requests of HTTP/1.1 on in HTTP/2, as they are: node http2.mjs PORT URL
import http from 'node:http'
import http2 from 'node:http2'

const [port, url] = process.argv.slice(2)
const OF_CONNECTIONS = ['connection', 'host', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']
let session

function connected () {
  if (!session || session.closed || session.destroyed) {
    session = http2.connect(url).on('error', () => {})
  }
  return session
}

// Lines of the same name stay apart where HTTP/2 has them as a list.
function fields (request) {
  const all = { ':method': request.method, ':path': request.url, ':authority': request.headers.host }
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    const [name, value] = [request.rawHeaders[at].toLowerCase(), request.rawHeaders[at + 1]]
    if (OF_CONNECTIONS.includes(name)) continue
    all[name] = name in all ? [all[name], value].flat() : value
  }
  return all
}

function ordinary (head) {
  return Object.fromEntries(Object.entries(head).filter(([name]) => !name.startsWith(':')))
}

http.createServer((request, response) => {
  const stream = connected().request(fields(request), { endStream: !request.headers['content-length'] && !request.headers['transfer-encoding'] })
  stream.on('headers', head => {
    if (head[':status'] === 102) response.writeProcessing()
    if (head[':status'] === 103) response.writeEarlyHints(ordinary(head))
  })
  stream.on('response', head => {
    response.sendDate = false
    response.writeHead(head[':status'], ordinary(head))
    stream.pipe(response)
  })
  // What ends early has to do so for the client.
  stream.on('error', () => response.destroy())
  stream.on('aborted', () => response.destroy())
  response.on('close', () => stream.close())
  if (!stream.writableEnded) request.pipe(stream)
}).listen(port)
