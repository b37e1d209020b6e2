#!/usr/bin/env python3
"""Draws strata-sessions.csv, which strata-sessions.json reads: questions about documents.

    python3 workloads/scenarios/strata_sessions.py > workloads/scenarios/strata-sessions.csv

Of a source:
- Documents have MEAN_TOKENS on average: LooGLE's mean, as digests of Strata (arXiv 2508.18572)
  report its setting.

Assumed, since no source that we have says it:
- How documents differ: gamma of shape 6, a coefficient of variation of .41, in whole pages.
- 96 documents, each as likely to be asked about as any other, question by question.
- A question has 32 to 160 tokens of its own, an answer 16 to 48, each number as likely.
- 64 clients who take turns in the file. Each asks its next question as soon as it is answered.

Integers and decimal's correctly rounded logarithm: equal bytes on every machine.
"""
import decimal
import sys

SEED = 1
QUESTIONS = 2000
CLIENTS = 64
DOCUMENTS = 96
MEAN_TOKENS = 21613
SHAPE = 6
PAGE_TOKENS = 64  # prefixes are kept in whole pages
QUESTION_TOKENS = (32, 160)
ANSWER_TOKENS = (16, 48)

BITS = 64
MASK = (1 << BITS) - 1
HEADER = "arrival_s,input_tokens,output_tokens,session_id,think_s,prefix_group,prefix_tokens"


class SplitMix64:
    """Steele, Lea and Flood's generator (OOPSLA 2014)."""

    def __init__(self, seed):
        self.state = seed

    def word(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def between(self, least, most):
        """Each integer of [least, most] with the same chance; words that would favour some are dropped."""
        count = most - least + 1
        while True:
            word = self.word()
            if word < (1 << BITS) // count * count:
                return least + word % count


def gamma(rng, shape, context):
    """Gamma of an integer shape and scale 1: minus the logarithm of that many uniforms in (0, 1]."""
    product = 1
    for _ in range(shape):
        product *= rng.word() + 1
    return context.subtract(context.multiply(shape * BITS, context.ln(decimal.Decimal(2))),
                            context.ln(decimal.Decimal(product)))


def document_tokens(rng):
    """Lengths of all documents in whole pages, scaled so that their mean is MEAN_TOKENS."""
    context = decimal.Context(prec=50, rounding=decimal.ROUND_HALF_EVEN)
    drawn = [gamma(rng, SHAPE, context) for _ in range(DOCUMENTS)]
    total = decimal.Decimal(0)
    for length in drawn:
        total = context.add(total, length)
    pages = context.divide(decimal.Decimal(MEAN_TOKENS * DOCUMENTS), PAGE_TOKENS)
    scale = context.divide(pages, total)
    return [PAGE_TOKENS * max(1, int(context.to_integral_value(context.multiply(length, scale))))
            for length in drawn]


def lines():
    rng = SplitMix64(SEED)
    documents = document_tokens(rng)
    yield HEADER
    for question in range(QUESTIONS):
        document = rng.between(0, DOCUMENTS - 1)
        prefix = documents[document]
        asked = prefix + rng.between(*QUESTION_TOKENS)
        answered = rng.between(*ANSWER_TOKENS)
        yield "0,%d,%d,%d,0,d%d,%d" % (asked, answered, question % CLIENTS, document, prefix)


if __name__ == "__main__":
    # Not through text streams: their line ends are a platform's.
    sys.stdout.buffer.write("".join(line + "\n" for line in lines()).encode("ascii"))
