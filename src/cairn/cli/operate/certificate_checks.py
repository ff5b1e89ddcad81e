"""Checks of the certificate that a node serves HTTPS with."""

from collections.abc import Iterator
from pathlib import Path

from cryptography import x509

from cairn.api.server.certificates import SOON_S, read_validity
from cairn.cli.operate.case import Case
from cairn.cli.operate.findings import Finding, error, warning

RENEW = "renew it; the node takes the new files within a minute, or at once on SIGHUP"


def check_certificate(case: Case) -> Iterator[Finding]:
    path = case.settings.tls_cert
    if not path:
        return
    try:
        pem = Path(path).read_bytes()
        begins, ends = read_validity(pem)
        names = _names_in(pem)
    except (OSError, ValueError):
        # Said by the review of the settings.
        return
    now = case.machine.now()
    if now >= ends.timestamp():
        yield error("CERTIFICATE_EXPIRED", f"{path} expired at {ends.isoformat()}", RENEW)
    elif now < begins.timestamp():
        yield error("CERTIFICATE_NOT_VALID_YET", f"{path} is valid from {begins.isoformat()}", "look at the clock, too")
    elif now >= ends.timestamp() - SOON_S:
        yield warning("CERTIFICATE_EXPIRES_SOON", f"{path} expires at {ends.isoformat()}", RENEW)
    missing = [host for host in case.settings.allowed_hosts if host != "*" and not _covers(names, host.lower())]
    if missing:
        yield warning(
            "CERTIFICATE_NAME",
            f"{path} is not for {', '.join(missing)}, which allowed_hosts names",
            "have a certificate made that names every host by which clients reach the node",
        )


def _names_in(pem: bytes) -> set[str]:
    certificate = x509.load_pem_x509_certificate(pem)
    try:
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {name.lower() for name in named.get_values_for_type(x509.DNSName)}


def _covers(names: set[str], host: str) -> bool:
    return host in names or f"*.{host.partition('.')[2]}" in names
