"""A mail server that is not ours (aiosmtpd): takes mail over STARTTLS from who signs in, and nothing else."""

import socket
import ssl
import sys
import time
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

work = Path(sys.argv[1])


class Keeper:
    def __init__(self):
        self.count = 0

    async def handle_DATA(self, server, session, envelope):
        if session.ssl is None or not session.authenticated:
            return "530 5.7.0 not without encryption and a name"
        self.count += 1
        head = f"X-Envelope-From: {envelope.mail_from}\r\nX-Envelope-To: {','.join(envelope.rcpt_tos)}\r\n".encode()
        (work / f"{self.count}.received").write_bytes(head + envelope.original_content)
        return "250 2.0.0 taken"


def authenticate(server, session, envelope, mechanism, data):
    fits = isinstance(data, LoginPassword) and (data.login, data.password) == (b"builds", b"correct horse")
    # Not handled: the server answers.
    return AuthResult(success=fits, handled=False)


context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(work / "server.pem", work / "server.key")
controller = Controller(
    Keeper(),
    hostname="127.0.0.1",
    port=0,
    tls_context=context,
    require_starttls=True,
    auth_required=True,
    authenticator=authenticate,
)


def port():
    return controller.server.sockets[0].getsockname()[1]


# The controller wants to be called once; it would call the port that it was given, which is 0.
controller._trigger_server = lambda: socket.create_connection(("127.0.0.1", port())).recv(100)
controller.start()
(work / "port").write_text(str(port()))
while True:
    time.sleep(60)
