"""A notice as a mail."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit  # noqa: TID251  settings, of any scheme

from crawlstream.boot.printable import printable
from crawlstream.boot.settings import Settings
from redis_monitor.notify.channel import NotAccepted, NotDelivered
from redis_monitor.notify.notice import Notice, encode_notice

TIMEOUT_S = 15.0
_LONGEST_SUBJECT = 150
_PERMANENT = 500
"""Codes of SMTP from here on are permanent (RFC 5321, 4.2.1)."""
_PORTS = {"smtp": 25, "smtps": 465}


class Mail:
    """Sends notices by one mail server to all receivers."""

    name = "mail"

    def __init__(self, settings: Settings) -> None:
        self._server = urlsplit(settings.notify_smtp.get_secret_value())
        self._from = settings.notify_mail_from
        self._to = settings.notify_mail_to

    async def send(self, notice: Notice) -> None:
        """Return when the server has taken the mail; else NotDelivered or NotAccepted."""
        mail = self._message(notice)
        try:
            await asyncio.to_thread(self._send, mail)
        except (OSError, smtplib.SMTPException) as error:
            kind = NotAccepted if _is_final(error) else NotDelivered
            raise kind(str(error) or type(error).__name__) from error

    def _message(self, notice: Notice) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self._from
        mail["To"] = ", ".join(self._to)
        text = " ".join(printable(notice.text).split())
        mail["Subject"] = _subject(f"[{notice.cluster}] {text}")
        mail["Message-ID"] = f"<{notice.id}@crawlstream>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(f"{text}\n\n{printable(encode_notice(notice).decode())}\n")
        return mail

    def _send(self, mail: EmailMessage) -> None:
        server, is_tls = self._server, self._server.scheme == "smtps"
        host, port = server.hostname or "", server.port or _PORTS[server.scheme]
        context = ssl.create_default_context()
        with (
            smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context)
            if is_tls
            else smtplib.SMTP(host, port, timeout=TIMEOUT_S)
        ) as client:
            client.ehlo()
            if not is_tls and client.has_extn("starttls"):
                client.starttls(context=context)
                is_tls = True
            if server.username:
                if not is_tls:
                    raise smtplib.SMTPNotSupportedError(
                        "the mail server offers no STARTTLS: the password was not sent"
                    )
                client.login(unquote(server.username), unquote(server.password or ""))
            client.send_message(mail)


def _subject(text: str) -> str:
    """ASCII without encoded words: Python's email package fails at some that clients can make."""
    plain = text.encode("ascii", "backslashreplace").decode().replace("=?", "= ?")
    return plain[:_LONGEST_SUBJECT]


def _is_final(error: Exception) -> bool:
    """Return whether the server refuses the mail itself (5xx); a login that fails can be mended."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= _PERMANENT for code, _ in error.recipients.values())
    if isinstance(error, (smtplib.SMTPDataError, smtplib.SMTPSenderRefused)):
        return error.smtp_code >= _PERMANENT
    return False
