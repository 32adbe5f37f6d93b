"""An HTTP server on a raw socket that answers with what no server should send."""

from __future__ import annotations

import gzip
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

RETRIED = ("HTTP/1.1 503 Service Unavailable", "HTTP/1.1 429", "HTTP/1.0 502 x", "HTTP/1.1 504 " + "y" * 60_000)
NO_STATUS = ("", "\x00\x01\x02", "HTTP/1.1", "HTTP/1.1 -1 x", "HTTP/1.1 " + "9" * 5000, "ICY 200 OK", "x" * 70_000)
OTHER = ("HTTP/1.1 200 OK", "HTTP/1.1 204", "HTTP/1.1 301 x", "HTTP/1.1 400", "HTTP/1.1 500", "HTTP/1.1 999 x")
DATES = [
    f"Sat, 21 Nov {year} {clock} {zone}"
    for year in ("99999999999999999", "123456789012", "9" * 5000, "0", "9999")
    for clock in ("10:00:30", "99:99:99", "1e5:0:0")
    for zone in ("GMT", "+99999999999", "-" + "9" * 5000, "+2460")
]
PAUSES = [
    *DATES[:-12],
    "-1",
    "",
    "soon",
    "٣",
    "1e400",
    "nan",
    "9" * 5000,
    "9" * 101,
    "\x00",
    "Sat,",
    ",",
    "1 2 3 4 5 6",
]
"""Values of Retry-After that ask for no pause that goldspan would keep to."""
NUMBERS = (
    "9" * 5000,
    "9" * 4000,
    '"' + "9" * 5000 + '"',
    "1e400",
    "-1",
    "NaN",
    "true",
    "[[]]",
    "1" + "0" * 4000 + ".0",
)
DEEP = b"[" * 100_000


def json_body(random: Random) -> bytes:
    partial = random.choice(
        [f'{{"rejectedSpans": {random.choice(NUMBERS)}}}', "1", "null", '"x"', '{"errorMessage": 5}']
    )
    return f'{{"partialSuccess": {partial}, "code": {random.choice(NUMBERS)}, "message": [{{}}]}}'.encode()


BODIES: list[Callable[[Random], bytes]] = [
    lambda random: b"",
    lambda random: random.randbytes(random.choice([1, 7, 300, 70_000])),
    json_body,
    lambda random: DEEP,
    lambda random: b"\x0a" + b"\xff" * 9 + b"\x01",
    lambda random: b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01",  # rejected_spans: -1
    lambda random: gzip.compress(bytes(10_000_000)),
    lambda random: b"x" * 3_000_000,
]
LENGTHS = ("-1", "-" + "9" * 5000, "9" * 5000, "5, 6", "", "x", "0x10", "99999999")
CHUNKS = (
    b"-1\r\n",
    b"ffffffffffffffffffff\r\n",
    b"z\r\n",
    b"9" * 70_000 + b"\r\n",
    b"5\r\nab",
    b"0\r\n" + b"a: b\r\n" * 500,
)
HEADERS = (
    "Content-Type: application/json",
    "Content-Type: application/json; charset=" + "x" * 500,
    "Content-Encoding: gzip",
    "Content-Encoding: br, zstd, gzip",
    "Location: http://127.0.0.1:1/" + "x" * 5000,
    "Connection: upgrade, close",
    "no colon",
    ": empty",
    "X: " + "y" * 70_000,
    "\r\n".join(f"X-{number}: y" for number in range(200)),
)


def malformed(random: Random, statuses: tuple[str, ...]) -> bytes:
    """One answer, of statuses as given and everything else at random."""
    head = [random.choice(statuses)]
    head += random.sample(HEADERS, random.randint(0, 3))
    if random.random() < 0.7:
        head.append(f"Retry-After: {random.choice(PAUSES)}")
    body = random.choice(BODIES)(random)
    framing = random.random()
    if framing < 0.5:
        head.append(f"Content-Length: {len(body)}")
    elif framing < 0.7:
        head.append(f"Content-Length: {random.choice(LENGTHS)}")
    elif framing < 0.9:
        head.append("Transfer-Encoding: chunked")
        body = random.choice(CHUNKS) + body
    begin = b"HTTP/1.1 100 Continue\r\n\r\n" * random.choice([0, 0, 0, 1, 50])
    return begin + "\r\n".join(head).encode("utf-8", "replace") + b"\r\n\r\n" + body


class RawDownstream:
    """Reads requests over TCP and answers with bytes."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.answer: Callable[[], bytes] = lambda: GOOD
        self.drip = False
        """Send one byte a tenth of a second."""
        self.attempts = 0
        self.accepted: list[bytes] = []
        """Bodies whose request was answered well."""


@contextmanager
def raw_downstream(tls: ssl.SSLContext | None = None) -> Iterator[RawDownstream]:
    """Answer while the block runs."""

    def serve(plain: socket.socket, random: Random) -> None:
        with suppress(OSError):
            answer_all(plain if tls is None else tls.wrap_socket(plain, server_side=True), random)

    def answer_all(connection: socket.socket, random: Random) -> None:
        with connection, connection.makefile("rb") as file:
            while file.readline():
                length = 0
                while (line := file.readline()) not in (b"\r\n", b""):
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                body = file.read(length)
                downstream.attempts += 1
                answer = downstream.answer()
                if answer == GOOD:
                    downstream.accepted.append(body)
                if downstream.drip:
                    for byte in answer:
                        connection.sendall(bytes([byte]))
                        time.sleep(0.1)
                connection.sendall(answer)
                if answer != GOOD:
                    if random.random() < 0.2:  # a reset
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                threading.Thread(target=serve, args=(connection, Random(downstream.attempts)), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        scheme = "http" if tls is None else "https"
        downstream = RawDownstream(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield downstream
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
