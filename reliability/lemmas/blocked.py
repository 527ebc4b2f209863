"""Positions and marks of blocked filters, how such a filter is folded and expanded, and how any is stored."""

from z3 import Implies
from rust import lemma

FILTER, FORMAT, FOLDING = "crates/filter/src/", "crates/format/src/format/", "lab/classics/src/filter/resize.rs"
PROBE, RIBBON, LINE = FILTER + "filter/probe.rs", FILTER + "filter/ribbon.rs", FILTER + "filter/simd/line.rs"
# Over integers: z3 multiplies no bits of this width.
FAST_RANGE = "let product = u128::from(hash) * u128::from(range); (product >> 64) as u64"
IN_SHARD = """let product = u128::from(hash.get()) * u128::from(self.shards);
    ((product >> 64) as u64 * self.shard_words, product as u64)"""

@lemma([PROBE, RIBBON], (">> 64", ">> 63"), ("(product >> 64)", "product"), ("64) as u64 *", "65) as u64 *"))
def positions_and_shards_lie_in_their_range_and_keep_the_order_of_hashes(code):
    low, high, range = code.whole("low high range")
    code.given(low <= high, range > 0)
    code.must(code(FAST_RANGE, hash=low) <= code(FAST_RANGE, hash=high), code(FAST_RANGE) < range)
    (shard, rest), (next_shard, next_rest) = (
        code(IN_SHARD, hash=hash, shards=range, shard_words=low.lift(1)) for hash in (low, high))
    code.must(shard <= next_shard, Implies(shard == next_shard, rest <= next_rest))

@lemma([PROBE, FOLDING], ("2 * LINE_WORDS", "LINE_WORDS"), ("lines / 2", "lines / 4"), ("_mul(2)", "_mul(4)"))
def folding_and_expansion_put_a_line_where_its_keys_are(code):
    hash, word = code.whole("hash word")
    code.given(word < 8)
    for lines in (hash.lift(2**power) for power in range(1, 56)):
        counts = code("lines / 2", lines=lines), lines, code("lines.checked_mul(2)", lines=lines)
        folded, line, expanded = (code(FAST_RANGE, range=count) for count in counts)
        code.must((line * 8 + word) // code("2 * LINE_WORDS", LINE_WORDS=8) == folded, expanded // 2 == line)

@lemma([LINE], ("64 - start", "63 - start"), ("group * span + take", "group + take"))
def marks_lie_in_the_words_of_their_group(code):
    taken = "(spread >> (64 - start - count)) & ((1 << count) - 1)"
    code.bits("spread")
    code.names["take"] = lambda spread, start, count: code(taken, start=start, count=count)
    for groups, each in [(2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (4, 1), (4, 2)]:
        code.names |= {"GROUPS": groups, "EACH": each, "span_ilog2": {2: 2, 4: 1}[groups]}
        code("let span = 8 / GROUPS;")
        for group in range(groups):
            code("let start = group as u32 * (span.ilog2() + 6 * EACH);", group=group)
            word = code("let word = group * span + take(spread, start, span.ilog2()) as usize;", group=group)
            code("let first = start + span.ilog2();")
            code.must(word < 8, word // (8 // groups) == group)
            code.must(*(code("take(spread, first + 6 * probe, 6)", probe=probe) < 64 for probe in range(each)))

@lemma([FORMAT + "layout.rs"], ("BLOCK_DATA_BYTES as u64", "BLOCK_BYTES as u64"))
def blocks_that_are_read_are_those_that_were_written(code):
    """A reader takes all but the last for 4 KiB. Each has data, and a checksum behind it."""
    header, payload, length = code.whole("header payload length")
    blocks = code("let blocks = payload.div_ceil(BLOCK_DATA_BYTES as u64);")
    total = code("""blocks.checked_mul(CRC_BYTES as u64)?.checked_add(payload)?
        .checked_add(header as u64)?.checked_add(TRAILER_BYTES as u64)""")
    left = total - header - code.constant("TRAILER_BYTES")
    code.must(left.div_ceil(4096) == blocks)
    with code.where(blocks > 0):
        code.must(left - (blocks - 1) * 4096 > code.constant("CRC_BYTES"))
