"""Reject offensive words in generated text.

A small language model invents words, and some of them are slurs. Only truncated SHA-256 hashes are kept here, so that
the repository does not contain the list itself.
"""

import hashlib
import re
from collections.abc import Callable

# Whole words, plurals included, in English, German, Dutch, French and Spanish.
_WORDS = """
005859e9503c 044eb98b1876 0515b9e67e0e 086bc1cc153a 08728a39b5c6 08a841e99678 08cde742ce80 0be9b885f4a3 0c38fc998949
0c5964a0925f 0ce875d62007 0dcc4d336443 0f28c4960d96 118418653f4d 11c26c797ef9 11cf8376a157 11ee63a73ffe 120f6e5b4ea3
12e6274e4309 13a465fc6616 158869a97379 15a7ed777241 16c4ed41c89f 16ea09fc78ca 17a110e53328 17bde8b40646 1802d081455e
1c4bfd100aa9 1e02eec4f109 1f5758aeeccb 1f5936d3bcac 20d682eed78f 21a991a802ed 22fc75e65a0e 26578569a290 268651b3ece9
27eb0c4ad707 290db051b0ca 2a6937d721b1 2da888fb5e7c 2f5f6ce5ae30 30a989afc82c 310ee9ff44f7 31506a8448a7 31ebe936cd1c
333f76180929 33740da8a87d 33ae7025da8c 33b9fdc1f872 341d56384afc 35d7ccc6773c 37b57d5556b6 382ee2789db0 38ba35fc0a47
3b1e0d7c5dd4 3c132a5956f3 3cb6a563b3b2 3cc0a581d3bb 402f7ebd9886 429fecdc0e18 43508b5c03b8 448b303c89be 457f002f9240
45cd3e1bb472 45fb7c3b72b6 46505206c396 469c0fdb6020 46c0a8bb4231 4753d01249c1 4814058be6f3 489a84553741 4c58f5d5fe92
4d13cfd2f9d8 4d4a5cbef6cd 517ae3f73216 521e601a5247 522788b65f01 52d5757c9388 544fc8545c8d 565ed74643e0 566f532d486c
56d9e1f65737 594810adcbee 59cc3cb8a429 5a9d9dcefb56 5a9f0a1e29ac 5b3ae48be122 5bbc58ab92f4 5d290e1de343 5e2123fd9a9b
5e937513c637 6122fdf4ae14 619bc82e0d20 63333e4b5d1c 63dfbc4b4d18 652aee45407e 665cb762e3bc 6a8bfd1abbd6 6ac3c336e409
6b571f65fa6f 6cfcdedf5407 6d1833779e38 701033ae2641 70aafb426695 7122c9a14ba2 74fad891ce4d 7665769cd919 77ccd2235072
78a00d189cb8 7ad08aa46f31 7c4a5c242b72 7c686cf2ae58 7cfc9425c5f3 7d2969e37aa4 82159dd02870 83621b34ec59 83bd72f7a1be
83dd8e733b1e 84105992682c 85fc17f7069a 862a6b5e7933 867d78976655 886d51e97ad7 88a6fe855435 89133bc00e9b 8e760c31fd2f
8f5083e3e5c7 9059c1e10857 906b92608873 909a449821b1 92a9bf818e7e 930138bfbe6f 937d56e49744 94a877e2ce63 94c6d2e10a76
952582c9ecc0 958ce5c321d2 960cc9ebb439 97f85e1b507e 986c99004163 98b52c4b6b7d 9915ba2d8222 9ab66fd234f7 9ae315a94e42
9d57436661e1 a1a14e631f64 a24efab8d957 a2fa402bd03b a40ccba874d2 a511c0753b12 a76d588d0047 a7bf072c97a0 aa1127001e87
ac5682c28147 acc96930e3a6 acd9193a33dd ad64e56f214e ad6cacf3af98 b11aa5532465 b3cec2f6ece2 b690cdbe59f1 b76e107adf3a
b829beb00d8b ba5933113125 bb209d506bb8 bb61ef40814c bb87adf8aa78 bbf8bb786317 bc87631998ab bd331fb1d242 bdb1cc258d69
be00f1af522e c0b25ae42470 c16ade7ca9ce c17cbea4afe7 c1b4ed05397d c1cabb6f6e43 c2a9b8eab1e2 c2c3b68b4883 c3de533e9b7f
c57079b646a5 c74677aba35a c905e73dd427 ca8aca2ceb3c cc02032349c8 ce20df725915 cfdd4b20e1e8 d067075bc9d8 d072af28198d
d0e3cb91d249 d1b2dec28ad0 d284c1e19c4d d284d1cb239c d417a3bcaa75 d4f68464f04b d5ebe71514c4 d6320c808358 d6a0639bc5f8
d75a838dc758 d7bfe603ea71 d7cc7ecc7ef0 da0a6b1b9213 da8843926277 dac40f30b62e daec0c235d31 dc50e12f4c7a dc675e448132
dd92623b0a4b e10c5b19ca9f e512a0558344 e7282d82ac6c e742d17ff490 e793d67686f2 e7b98c6aa5b9 e9e8b6c5afa7 eb9b035455b4
eb9f46c07340 eda887476f1d eea2991640d1 eef3bd091670 ef6e97ba7fa9 efc0c180c864 f09fdc2a35e7 f0a67995cb34 f1a5fb56076a
f1b1d692c745 f3cf22cc8c5b f50c51ed2315 f59e28f8bb64 f63a2457a905 f64c6fad9c3c f77fd8df7a3b f8fa90eaf97b f9d0d9b18ae9
fa1597ae5dc4 fa38a8d3e5b9 fb515899fe15 fc2dec82a03c fd46d1568451 fd70ad909b94 ff1580fa239a ff454a8739cf
"""
# Stems that are offensive wherever they occur in a word.
_STEMS = "08a841e99678 120f6e5b4ea3 6ac3c336e409 84105992682c 8f5083e3e5c7"
WORDS, STEMS = frozenset(_WORDS.split()), frozenset(_STEMS.split())
STEM_LENGTHS = (4, 5, 6)


def is_offensive(text: str) -> bool:
    """Whether `text` contains an offensive word; upper and lower case are the same."""
    return any(_is_offensive_word(word) for word in set(re.findall(r"[^\W\d_]+", text.lower())))


def inoffensive(sample: Callable[[int], str], seed: int, tries: int = 20) -> str:
    """The text of the first seed, from `seed` on, that contains no offensive word."""
    for attempt in range(seed, seed + tries):
        text = sample(attempt)
        if not is_offensive(text):
            return text
    raise ValueError(f"{tries} samples in a row contain an offensive word; choose another prompt")


def _is_offensive_word(word: str) -> bool:
    parts = (word[i : i + length] for length in STEM_LENGTHS for i in range(len(word) - length + 1))
    return _hash(word) in WORDS or any(_hash(part) in STEMS for part in parts)


def _hash(word: str) -> str:
    return hashlib.sha256(word.encode()).hexdigest()[:12]
