/* paper_verdict.c -- how near our value comes to the paper's.
 *
 *     decimals  both print alike with so many decimals
 *     rel, abs  within so much of the paper's value; of each, in their order, where there are as
 *               many of ours; of the nearer end, where the paper gives a range and ours has another
 *               number of values
 *     min       no less
 *     of_best   the judge has decided */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "paper.h"

const char *paper_verdict_name(enum paper_verdict_kind kind)
{
    static const char *const names[PAPER_VERDICTS] = {"within", "outside",      "holds",
                                                      "fails",  "not measured", "not identifiable"};
    return names[kind];
}

/* As print rounds: the decimal digits of the value itself. */
static bool prints_alike(double ours, double paper, int decimals)
{
    char a[64], b[64];

    (void)snprintf(a, sizeof a, "%.*f", decimals, ours);
    (void)snprintf(b, sizeof b, "%.*f", decimals, paper);
    return strcmp(a, b) == 0;
}

/* Decimal bounds such as 3 % of 50.3 are not exact in binary. */
static bool is_near(double ours, double paper, double allowed)
{
    return fabs(ours - paper) <= allowed + 1e-12 * fabs(paper);
}

static bool is_one_within(const struct paper_target *target, double ours, double paper)
{
    switch (target->tolerance) {
    case PAPER_DECIMALS:
        return prints_alike(ours, paper, (int)target->allowed);
    case PAPER_RELATIVE:
        return is_near(ours, paper, target->allowed * fabs(paper));
    case PAPER_ABSOLUTE:
        return is_near(ours, paper, target->allowed);
    case PAPER_AT_LEAST:
        return ours >= target->allowed;
    case PAPER_NO_TOLERANCE:
    case PAPER_OF_BEST:
        break;
    }
    return false;
}

static double relative_error(double ours, double paper)
{
    return paper != 0 ? ours / paper - 1 : (double)NAN;
}

/* Of a printed range the end that this value has to be near to; the value itself inside it. */
static double nearest_in_range(const struct paper_target *target, double ours)
{
    double low = target->numbers[0], high = target->numbers[target->number_count - 1];

    return ours < low ? low : ours > high ? high : ours;
}

static void keep_worst(struct paper_verdict *out, double error)
{
    if (isnan(out->error) || fabs(error) > fabs(out->error))
        out->error = error;
}

void paper_judge_value(const struct paper_target *target, const struct paper_value *value,
                       struct paper_verdict *out)
{
    bool in_order = value->count == target->number_count;
    bool within = true;

    out->error = (double)NAN;
    if (value->found == PAPER_ABSENT) {
        out->kind = PAPER_NOT_MEASURED;
        return;
    }
    for (size_t i = 0; target->number_count > 0 && i < value->count; i++) {
        double ours = value->numbers[i];
        double paper = in_order ? target->numbers[i] : nearest_in_range(target, ours);
        within = within && is_one_within(target, ours, paper);
        keep_worst(out, relative_error(ours, paper));
    }
    if (target->class_of == PAPER_UNIDENTIFIABLE)
        out->kind = PAPER_NOT_IDENTIFIABLE;
    else if (value->found == PAPER_HOLDS)
        out->kind = value->holds ? PAPER_HOLDS_TRUE : PAPER_FAILS;
    else if (value->is_decided)
        out->kind = value->holds ? PAPER_WITHIN : PAPER_OUTSIDE;
    else
        out->kind = within && value->count > 0 ? PAPER_WITHIN : PAPER_OUTSIDE;
}
