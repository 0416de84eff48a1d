"""Receives webhooks of looptrace and prints those whose signature holds: receiver.py PORT."""

import base64
import hmac
import os
import re
import sys
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer

KEY = base64.b64decode(os.environ["LOOPTRACE_WEBHOOK_SECRET"].removeprefix("whsec_"))


def verified(headers: Message, body: bytes) -> bool:
    """Say whether a body is signed with the key, within five minutes; nothing in it can raise."""
    name, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not (at.isascii() and at.isdigit() and len(at) < 12 and abs(time.time() - int(at)) <= 300):
        return False
    message = f"{name}.{at}.".encode("utf-8", "replace") + body
    wanted = b"v1," + base64.b64encode(hmac.digest(KEY, message, "sha256"))
    given = headers.get("webhook-signature", "").encode("utf-8", "replace")
    return any(hmac.compare_digest(wanted, each) for each in given.split(b" "))


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 where the signature holds, else 401."""

    def do_POST(self) -> None:
        """Take one event. Its id may come twice: do a thing once for each webhook-id."""
        length = self.headers.get("content-length", "")
        body = (
            self.rfile.read(min(int(length), 20_000)) if re.fullmatch("[0-9]{1,9}", length) else b""
        )
        ok = verified(self.headers, body)
        self.send_response(204 if ok else 401)
        self.end_headers()
        if ok:
            print(self.headers["webhook-id"], body.decode(), flush=True)


HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
