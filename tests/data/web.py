"""A real web server on this machine, for tests of downloads."""

import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY = bytes(range(256)) * 5000  # 1.28 MB, several pieces


class Server:
    """Serves one body and remembers what was asked; how badly it behaves can be set."""

    def __init__(self):
        self.ranges = True
        self.says_length = True
        self.cuts = []  # after how many bytes each of the next connections ends
        self.codes = []  # what the next requests are answered instead
        self.kind = "application/octet-stream"
        self.body = BODY
        self.asked = []

    def answer(self, request):
        begin = request.headers.get("Range") if self.ranges else None
        self.asked.append(request.headers.get("Range"))
        if self.codes:
            request.send_error(self.codes.pop(0))
            return
        start = int(begin.removeprefix("bytes=").rstrip("-")) if begin else 0
        if begin and start >= len(self.body):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(self.body)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        rest = self.body[start:]
        request.send_response(206 if begin else 200)
        request.send_header("Content-Type", self.kind)
        if begin:
            span = f"bytes {start}-{len(self.body) - 1}/{len(self.body)}"
            request.send_header("Content-Range", span)
        if self.says_length:
            request.send_header("Content-Length", str(len(rest)))
        request.end_headers()
        request.wfile.write(rest[: self.cuts.pop(0)] if self.cuts else rest)


@contextmanager
def serving():
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with suppress(ConnectionError):  # whoever asked may have left
                server.answer(self)
            self.close_connection = True

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}/file.bin"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
