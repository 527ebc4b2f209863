"""Ribbon filters: shards, layers, thresholds and windows, and the equations of their slots."""

from z3 import Concat, Extract, Implies, LShR, RotateLeft, ZeroExt
from blocked import FILTER, IN_SHARD
from rust import choice, lemma

ALL = [FILTER + file for file in ("bits/line.rs", "bits/words.rs", "math/ribbon.rs", "filter/ribbon.rs",
                                  "filter/ribbon/solve.rs", "filter/ribbon/probes.rs", "filter/simd/columns.rs")]
THRESHOLD_WORDS = "buckets.div_ceil(BUCKETS_A_WORD).next_multiple_of(WORDS_A_LINE)"
PLANE_START = "self.first_plane.start + self.blocks() * u64::from(first_column)"
BLOCK_AT = "self.start + block * u64::from(self.columns)"

@lemma(ALL, ("room / shards", "words / shards"), ("/ WORDS_A_LINE * WORDS_A_LINE", "/ WORDS_A_LINE"))
def shards_are_whole_lines_within_the_words(code):
    hash, words, shards = code.whole("hash words shards")
    code.given(shards > 0)
    room = code("let room = words.checked_sub(BEHIND)?;")
    shard_words = code("let shard_words = room / shards / WORDS_A_LINE * WORDS_A_LINE;")
    each, (shard, _) = room.term / shards.term, code(IN_SHARD, shard_words=shards.lift(1))
    code.step(shards.term * each <= room.term, shard_words.term <= each, shard < shards)
    code.step(shards.term * shard_words.term <= shards.term * each)
    code.step((shard.term + 1) * shard_words.term <= shards.term * shard_words.term)
    at, _ = code(IN_SHARD)
    code.must(at + shard_words <= room, at % 8 == 0)

@lemma(ALL, ("words.checked_mul(WORD_BITS)?", "words.checked_mul(1)?"))
def no_size_of_a_geometry_overflows(code):
    (words, buckets), (parts,) = code.whole("words buckets"), code.whole("parts", 32)
    code("words.checked_mul(WORD_BITS)?;")
    code.given(parts >= 16, parts <= 512, buckets <= code("words * BUCKETS_A_WORD / u64::from(self.parts + 1)"))
    code.step(buckets * 17 <= words * 8)
    code("self.buckets * BUCKET_SLOTS")
    blocks, start = code("self.buckets * BUCKET_BLOCKS"), code(THRESHOLD_WORDS)
    for wider in range(1, 16):
        code("((blocks * u64::from(wider)).div_ceil(PARTS.into()) + 1).min(blocks)", blocks=blocks, wider=wider)
    for first in range(33):
        plane = code(PLANE_START, blocks=blocks, first_plane_start=start, first_column=first)
        code(BLOCK_AT, start=plane, block=blocks, columns=min(8, 33 - first))

@lemma(ALL, ("buckets < LAST_LAYER", "buckets < 1"), ("SLOTS - (BLOCK_SLOTS - 1)", "SLOTS - (BLOCK_SLOTS - 2)"))
def windows_of_all_layers_lie_in_the_shard(code):
    first, buckets, position = code.whole("first_slot buckets position")
    code.given(first <= 2**62, buckets > 0, buckets <= 2**54)
    left = code("let buckets_left = if buckets < LAST_LAYER { 0 } else { (buckets / LAYER_SHARE).max(1) };")
    code.names["starts"] = starts = code("(buckets - buckets_left) * BUCKET_SLOTS - (BLOCK_SLOTS - 1)")
    end = code("self.first_slot + self.starts + (BLOCK_SLOTS - 1)")
    # What is left for later layers ends where this layer would end without them.
    code.must(starts > 0, left < buckets, end + left * 128 == first + buckets * 128)
    with code.where(position < starts):
        code.names |= {"hash": 0, "probe_fast_range": lambda *_: position}
        code.must(code("self.first_slot + probe::fast_range(hash, self.starts)") + 64 <= end)

@lemma(ALL, ("% BUCKETS_A_WORD * 8", "% BUCKETS_A_WORD * 7"), ("place.slot / BUCKET_SLOTS", "place.slot / BLOCK_SLOTS"))
def threshold_is_read_where_it_was_written(code):
    shard_at, slot, other, one, another, buckets = code.bits("shard_at place_slot other one another buckets")
    code.given(shard_at <= 2**58, buckets <= 2**54, slot < buckets * 128, slot // 128 != other, one | another <= 255)
    def written(index, bucket, threshold):
        at = code("(bucket / BUCKETS_A_WORD) as usize", bucket=bucket)
        shifted = code("threshold << (bucket % BUCKETS_A_WORD * 8)", threshold=threshold, bucket=bucket)
        return choice(index - shard_at == at, shifted, 0)
    word = lambda index: written(index, slot // 128, one) | written(index, other, another)
    at = code("shard_at * BUCKETS_A_WORD + place.slot / BUCKET_SLOTS")
    code.must(code("(self.word(index / 8) >> (index % 8 * 8)) & 0xff", index=at, word=word) == one)
    code.must(at // 8 - shard_at < code(THRESHOLD_WORDS))

@lemma(ALL, ("< threshold", "<= threshold"), ("BUCKET_SLOTS + 1", "BUCKET_SLOTS"))
def threshold_bumps_the_lost_keys_and_no_other(code):
    lost, slot = code.bits("lost place_slot")
    code.given(lost // 128 == slot // 128)
    threshold = code("slot_of(beside[0]) % BUCKET_SLOTS + 1", slot_of=lambda key: key, beside=[lost])
    code.must(threshold <= 255, code("place.slot % BUCKET_SLOTS < threshold", threshold=threshold) == (slot <= lost))

@lemma(ALL, ("(coefficients >> 1) >> (BLOCK_SLOTS - 1", "coefficients >> (BLOCK_SLOTS"), ("next_mask", "mask"))
def probe_sums_the_bits_of_the_window(code):
    low, high, coefficients, shift = code.bits("word next_word coefficients shift")
    code.given(shift < 64)
    code.names |= {"words_word": lambda word: word, "pane_mask": code("coefficients << shift"),
                   "pane_next_mask": code("(coefficients >> 1) >> (BLOCK_SLOTS - 1 - shift)")}
    both = code("(words.word(word) & pane.mask) ^ (words.word(next_word) & pane.next_mask)")
    window = Extract(63, 0, LShR(Concat(high.term, low.term), ZeroExt(64, shift.term)))
    # The builder's `*bits & coefficients`, rotated: as many ones.
    code.must(both.term == RotateLeft(window & coefficients.term, shift.term))

@lemma(ALL, ("block + 1 < ribbon", "block < ribbon"), ("3 * WORDS", "1 * WORDS"))
def panes_lie_in_the_shard_and_vectors_in_the_words(code):
    words, shard_at, shard_words, start, blocks, slot, wider = code.whole(
        "words shard_at shard_words first_plane_start blocks place_slot ribbon_wider")
    code.given(words < 2**58, start < 2**58, blocks < 2**58, wider <= blocks, blocks > 0, slot + 64 <= blocks * 64)
    code.given(shard_at + shard_words <= code("words.checked_sub(BEHIND)?"))
    block, shift = code("(place.slot / BLOCK_SLOTS, place.slot % BLOCK_SLOTS)")
    rest = code("window.block + 1 < ribbon.wider()", window_block=block)
    for columns in range(1, 33):
        last = (columns - 1) // 8 * 8
        # The next block matters unless the window ends with the first; of the rest it always does.
        for first, count, asked, next in ((last, columns - last, True, shift > 0), (columns, 1, rest, True)):
            with code.where(start + blocks * columns + wider <= shard_words), code.where(asked):
                word = code(BLOCK_AT, start=code(PLANE_START, first_column=first), block=block, columns=count)
                code.must(word + count <= shard_words, Implies(next, word + 2 * count <= shard_words))
                names = {"first": shard_at + word, "lines_len": words.div_ceil(8)}
                code.must(code("first / WORDS_A_LINE + 2 < self.lines.len()", **names))

@lemma(ALL, ("LINE + 2 <", "LINE + 1 <"))
def vectors_are_loaded_from_within_the_lines(code):
    (_, lines), _ = code.whole("first lines_len"), code.whole("further", 32)
    code.given(lines <= 2**57, code("first / WORDS_A_LINE + 2 < self.lines.len()"))
    code.given(code("further as usize <= WORDS_A_LINE"))
    code.must(*(start + 8 <= lines * 8 for start in code("[first, first + further as usize]")))
