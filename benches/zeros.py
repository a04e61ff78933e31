"""Serves /N, which is N zeros, over HTTP on port 8000. Connections use the kernel's CUBIC, and carry one request each."""
import http.server
import socket


class Zeros(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        left = int(self.path[1:])
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        part = bytes(1 << 20)
        while left > 0:
            self.wfile.write(part[:left])
            left -= min(left, len(part))

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


server = Server(("0.0.0.0", 8000), Zeros)
server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
server.serve_forever()
