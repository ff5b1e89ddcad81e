"""Whether a host is this machine: one answer, for whoever asks no proxy, trusts a name, or limits nobody there."""

from ipaddress import IPv4Address, IPv6Address, ip_address


def is_loopback(host: str) -> bool:
    """Whether `host` can only be this machine: a name or an address, as a URL, a socket or a person writes it.

    For example LOCALHOST, shop.localhost., 127.0.0.2, [::1], ::1%lo and ::ffff:127.0.0.1. No name is looked up.
    """
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    try:
        return parse_ip(name).is_loopback
    except ValueError:
        return False


def parse_ip(text: str) -> IPv4Address | IPv6Address:
    """The address; a socket for both versions shows an IPv4 one inside an IPv6 one. Raises `ValueError`."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
