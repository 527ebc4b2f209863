"""Range filters: numbers of keys, codes, the rows of codes that a range becomes, and the bits of groups."""

from z3 import And, Implies, Not, Or
from blocked import FILTER
from rust import choice, lemma

RANGE = [FILTER + "range/mod.rs"]
WRAPPED = "let code = of_block + u64::from(within); if code < codes { code } else { code - codes }"

@lemma(RANGE, ("code < codes", "code <= codes"), ("(BLOCK >> low_bits).max(1)", "1"))
def code_is_below_the_number_of_codes(code):
    (keys, block, codes), _ = code.whole("keys block codes"), code.whole("within", 16)
    code.given(Not(code("keys > Self::MOST_KEYS")), codes >= 2**16, codes <= 2**62)
    for low_bits in range(8, 33):
        code("let least = (BLOCK >> low_bits).max(1);", low_bits=low_bits)
        groups = code("keys.max(least).div_ceil(BUCKETS) as u32")
        all = code("(u64::from(self.groups) * BUCKETS) << self.low_bits", groups=groups, low_bits=low_bits)
        code.must(all == groups.cast(64) * 32 * 2**low_bits, all >= 2**16, all <= 2**62)
    code("let of_block = ((u128::from(block.get()) * u128::from(codes)) >> 64) as u64;")
    code.must(code(WRAPPED) < codes)

@lemma(RANGE, ("end.len() > NUMBER_BYTES ||", ""), ("|| *end.last()? == 0", ""))
def key_before_the_end_has_no_later_number(code):
    """Keys of up to 16 bytes, padded with zeros: of two that are then equal, the shorter is before."""
    key, end, key_length, end_length = code.bits("key end key_length end_len", 128)
    for bytes, length in ((key, key_length), (end, end_length)):
        code.given(length <= 16, bytes.term << (length * 8).term == 0)
    code.given(Or(key < end, And(key == end, key_length < end_length)))
    code.names |= {"end_last": (end >> (16 - end_length) * 8).cast(8), "number": lambda bytes: (bytes >> 64).cast(64),
                   "u64_from": lambda condition: choice(condition, (end * 0 + 1).cast(64), 0)}
    code("let is_included = end.len() > NUMBER_BYTES || *end.last()? == 0;")
    code.must(code.names["number"](key) <= code("number(end) - u64::from(!is_included)"))

@lemma(RANGE, ("first >= BLOCK", "first >= 2 * BLOCK"), ("last > end_of_block &&", "last >= first &&"))
def range_is_asked_for_in_each_of_its_blocks(code):
    first, number, last = code.bits("first number last")
    code.given(first <= last, Not(code("last - first >= BLOCK")))
    def row(_, first, last):
        code.must(first <= last, first >> 16 == last >> 16)
        return And(first <= number, number <= last)
    code("let end_of_block = first | (BLOCK - 1);")
    code.names |= {"prefix": 0, "row_may_contain": row}
    answer = code("""self.row_may_contain(prefix, first, last.min(end_of_block))
        || last > end_of_block && self.row_may_contain(prefix, end_of_block + 1, last)""")
    code.must(Implies(And(first <= number, number <= last), answer))

@lemma(RANGE, ("high < codes", "high <= codes"), ("|| self.has_code(0, high - codes)", ""))
def row_has_the_code_of_each_number(code):
    of_block, codes, first, number, last = code.whole("of_block codes first number last")
    code.given(of_block < codes, codes >= 2**16, codes <= 2**62)
    code.given(first <= number, number <= last, first >> 16 == last >> 16)
    code.names["low"], found = (code(WRAPPED, within=code("number as u16", number=at)) for at in (first, number))
    code("let high = low + (last - first);")
    code.must(code("""match high < codes { true => self.has_code(low, high),
        false => self.has_code(low, codes - 1) || self.has_code(0, high - codes), }""",
        has_code=lambda low, high: And(found >= low, found <= high)))

@lemma(RANGE, ("if to == last", "if to == first"), ("BUCKETS + BUCKETS - 1", "BUCKETS + BUCKETS - 2"))
def code_is_asked_for_in_its_bucket(code):
    (low, stored, high), (low_bits,) = code.bits("low stored high"), code.bits("shape_low_bits", 32)
    code.given(low <= stored, stored <= high, low_bits >= 8, low_bits <= 32)
    first, bucket, last = (code("code >> self.shape.low_bits", code=number) for number in (low, stored, high))
    code.names |= {"first": first, "last": last, "at": bucket // 32}
    part = stored & code("let mask = (1 << self.shape.low_bits) - 1;")
    code.must(code("first / BUCKETS") <= bucket // 32, bucket // 32 <= code("last / BUCKETS"))
    from_, to = code("let from = first.max(at * BUCKETS);"), code("let to = last.min(at * BUCKETS + BUCKETS - 1);")
    code.must(from_ <= bucket, bucket <= to)
    code.must(Implies(bucket == from_, part >= code("if from == first { low & mask } else { 0 }")))
    code.must(Implies(bucket == to, part <= code("if to == last { high & mask } else { mask }")))

@lemma(RANGE, ("from(1 + self.shape.low_bits)", "from(self.shape.low_bits)"), ("sub(BUCKETS)", "sub(0)"))
def group_has_as_many_codes_as_were_written(code):
    """Each group ends within a byte, and what that leaves is less than a code."""
    (count, at, length), (start, end) = code.whole("count at length"), code.whole("start end", 32)
    code.given(at < count, end.cast(64) <= length, length < 2**32, count < 2**32)
    bits = code("let bits = 8 * u64::from(end.checked_sub(start)?);")
    for low_bits in range(8, 33):
        code.names |= {"low_bits": low_bits, "shape_low_bits": low_bits}
        with code.where(bits == (32 + count * (1 + low_bits)).div_ceil(8) * 8):
            codes = code("let codes = bits.checked_sub(BUCKETS)? / u64::from(1 + self.shape.low_bits);")
            code("let highs = 8 * u64::from(start);")
            bit = code("self.lows + at * u64::from(self.low_bits)", lows=code("highs + BUCKETS + codes"))
            code.must(codes == count, bit + low_bits <= end.cast(64) * 8)
            code.must(code("(bit / 8) as usize", bit=bit) + 16 <= length + code.constant("PADDING"))
