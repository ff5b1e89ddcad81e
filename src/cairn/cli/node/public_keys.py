"""Which accounts of a chain are everybody's: the dev accounts, whose keys are published."""

from collections.abc import Iterable

from cairn.cli.report import warn
from cairn.domain.genesis import DEV_KEYS, Genesis
from cairn.domain.types import ZERO_ADDRESS, Address

# The addresses of the dev mnemonic's accounts 10 to 99, which `cairn dev --accounts 100` publishes. Deriving them takes
# more than a second.
_FURTHER = """
    bcd4042de499d14e55001ccbb24a551f3b954096 71be63f3384f5fb98995898a86b02fb2426c5788
    fabb0ac9d68b0b445fb7357272ff202c5651694a 1cbd3b2770909d4e10f157cabc84c7264073c9ec
    df3e18d64bc6a983f673ab319ccae4f1a57c7097 cd3b766ccdd6ae721141f452c550ca635964ce71
    2546bcd3c84621e976d8185a91a922ae77ecec30 bda5747bfd65f08deb54cb465eb87d40e51b197e
    dd2fd4581271e230360230f9337d5c0430bf44c0 8626f6940e2eb28930efb4cef49b2d1f2c9c1199
    09db0a93b389bef724429898f539aeb7ac2dd55f 02484cb50aac86eae85610d6f4bf026f30f6627d
    08135da0a343e492fa2d4282f2ae34c6c5cc1bbe 5e661b79fe2d3f6ce70f5aac07d8cd9abb2743f1
    61097ba76cd906d2ba4fd106e757f7eb455fc295 df37f81daad2b0327a0a50003740e1c935c70913
    553bc17a05702530097c3677091c5bb47a3a7931 87bdce72c06c21cd96219bd8521bdf1f42c78b5e
    40fc963a729c542424cd800349a7e4ecc4896624 9dcce783b6464611f38631e6c851bf441907c710
    1bcb8e569eedab4668e55145cfeaf190902d3cf2 8263fce86b1b78f95ab4dae11907d8af88f841e7
    cf2d5b3cbb4d7bf04e3f7bfa8e27081b52191f91 86c53eb85d0b7548fea5c4b4f82b4205c8f6ac18
    1aac82773cb722166d7da0d5b0fa35b0307dd99d 2f4f06d218e426344cfe1a83d53dad806994d325
    1003ff39d25f2ab16dbcc18ece05a9b6154f65f4 9eaf5590f2c84912a08de97fa28d0529361deb9e
    11e8f3ea3c6fcf12ecff2722d75cefc539c51a1c 7d86687f980a56b832e9378952b738b614a99dc6
    9ef6c02fb2ecc446146e05f1ff687a788a8bf76d 08a2de6f3528319123b25935c92888b16db8913e
    e141c82d99d85098e03e1a1cc1cde676556fdde0 4b23d303d9e3719d6cdf8d172ea030f80509ea15
    c004e69c5c04a223463ff32042dd36dabf63a25a 5eb15c0992734b5e77c888d713b4fc67b3d679a2
    7ebb637fd68c523613be51aad27c35c4db199b9c 3c3e2e178c69d4bad964568415a0f0c84fd6320a
    35304262b9e87c00c430149f28dd154995d01207 d4a1e660c916855229e1712090ccfd8a424a2e33
    ee7f6a930b29d7350498af97f0f9672eaecbeeff 145e2dc5c8238d1be628f87076a37d4a26a78544
    d6a098ebcc5f8bd4e174d915c54486b077a34a51 042a63149117602129b6922ecfe3111168c2c323
    a0ec9ee47802ceb56eb58ce80f3e41630b771b04 e8b1ff302a740fd2c6e76b620d45508daec2ddff
    ab707cb80e7de7c75d815b1a653433f3eec44c74 0d803cdeee5990f22c2a8df10a695d2312da26cc
    1c87bb9234aec6adc580eae6c8b59558a4502220 4779d18931b35540f84b0cd0e9633855b84df7b8
    c0543b0b980d8c834cbdf023b2d2a75b5f9d1909 73b3074ac649a8dc31c2c90a124469456301a30f
    265188114eb5d5536bc8654d8e9710fe72c28c4d 924ba5ce9f91dded37b4ebf8c0dc82a40202fc0a
    64492e25c30031edad55e57cea599cdb1f06dad1 262595fa2a3a86adacde208589614d483e3ef1c0
    dfd99099fa13541a64aee9aad61c0dbf3d32d492 63c3686ef31c03a641e2ea8993a91ea351e5891a
    9394cb5f737bd3acea7dce90ca48dbd42801ee5d 344dca30f5c5f74f2f13dc1d48ad3a9069d13ad9
    f23e054d8b4d0becfa22deef5632f27f781f8bf5 6d69f301d1da5c7818b5e61eecc745b30179c68b
    f0ce7bab13c99ba0565f426508a7cd8f4c247e5a 011bd5423c5f77b5a0789e27f922535fd76b688f
    d9065f27e9b706e5f7628e067cc00b288dddbf19 54ccceb38251c29b628ef8b00b3cab97e7cac7d5
    a1196426b41627ae75ea7f7409e074be97367da2 e74cef90b6cf1a77fefad731713e6f53e575c183
    7df8efa6d6f1cb5c4f36315e0acb82b02ae8ba40 9e126c57330fa71556628e0aabd6b6b6783d99fa
    586ba39027a74e8d40e6626f89ae97ba7f616644 9a50ed082cf2fc003152580dcdb320b834fa379e
    bc8183bac3e969042736f7af07f76223d11d2148 586af62eae7f447d14d25f53918814e04d3a5ba4
    ccdd262f272ee6c226266eea13ee48d4d932ce66 f0eeddc5e015d4c459590e01dcc2f2fd1d2baac7
    4edfedff17ab9642f8464d6143900903dd21421a 492c973c16e8aec46f4d71716e91b05b245377c9
    e5d3ab6883b7e8c35c04675f28bb992ca1129ee4 71f280dea6fc5a03790941ad72956f545feb7a52
    e77478d9e136d3643cfc6fef578abf63f9ab91b1 6c8ea11559dfe79ae3dbdd6a67b47f61b929398f
    48fa7b63049a6f4e7316eb2d9c5bdda8933bca2f 16adfbefdefd488c992086d472a4ca577a0e5e54
    225356ff5d64889d7364be2c990f93a66298ee8d cbdc0f9a4c38f1e010bd3b6e43598a55d1868c23
    bc5bdcee96b1bc47822c74e6f64186fba7d686be 0536896a5e38bbd59f3f369ff3682677965abd19
    fe0f143fcad5b561b1ed2ac960278a2f23559ef9 98d08079928fccb30598c6c6382abfd7dbfaa1cd
"""
_ADDRESSES = *dict(DEV_KEYS), *(Address(bytes.fromhex(text)) for text in _FURTHER.split())
DEV_NAMES = {address: f"dev{index}" for index, address in enumerate(_ADDRESSES)}


def describe_public_keys(genesis: Genesis, proposer: Address = ZERO_ADDRESS) -> str | None:
    """What public keys may do on a chain. None if none of its first accounts is a dev account.

    `proposer` is the account that receives the fees of this node.
    """
    roles = {
        "hold coins": (address for address, balance in genesis.alloc.items() if balance),
        "receive fees": (proposer, *(each.fee_recipient for each in genesis.validators)),
        "administer the network": () if genesis.admins is None else genesis.admins.addresses,
    }
    found = [f"{role} ({names})" for role, addresses in roles.items() if (names := _names_of(addresses))]
    if not found:
        return None
    return f"the keys of the dev accounts are public, and on this chain they {' and '.join(found)}"


def warn_of_public_keys(genesis: Genesis, proposer: Address = ZERO_ADDRESS) -> None:
    described = describe_public_keys(genesis, proposer)
    if described is not None:
        warn(f"{described}. Use it for tests only: anybody can use these keys. `cairn keys new` makes one of your own")


def _names_of(addresses: Iterable[Address]) -> str:
    found = {address for address in addresses if address in DEV_NAMES}
    return ", ".join(name for address, name in DEV_NAMES.items() if address in found)
