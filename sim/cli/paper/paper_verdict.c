/* paper_verdict.c -- how near our value comes to the paper's.
 *
 *     decimals              both print alike with so many decimals
 *     rel, abs              within so much of the paper's value; where it has several, of each in
 *                           its place, and there are as many of ours
 *     range_rel, range_abs  each of ours lies in the range, or so near to its nearer end
 *     min                   no less
 *     of_best               the judge has decided */
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
    case PAPER_RANGE_RELATIVE:
        return is_near(ours, paper, target->allowed * fabs(paper));
    case PAPER_ABSOLUTE:
    case PAPER_RANGE_ABSOLUTE:
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

static bool is_range(const struct paper_target *target)
{
    return target->tolerance == PAPER_RANGE_RELATIVE || target->tolerance == PAPER_RANGE_ABSOLUTE;
}

/* What the i-th of ours is held to: of a range its nearer end, or the value itself inside it. */
static double held_to(const struct paper_target *target, size_t i, double ours)
{
    if (!is_range(target))
        return target->numbers[i];
    return ours < target->numbers[0]   ? target->numbers[0]
           : ours > target->numbers[1] ? target->numbers[1]
                                       : ours;
}

static void keep_worst(struct paper_verdict *out, double error)
{
    if (isnan(out->error) || fabs(error) > fabs(out->error))
        out->error = error;
}

void paper_judge_value(const struct paper_target *target, const struct paper_value *value,
                       struct paper_verdict *out)
{
    bool within = value->count > 0 && (is_range(target) || value->count == target->number_count);

    out->error = (double)NAN;
    if (value->found == PAPER_ABSENT) {
        out->kind = PAPER_NOT_MEASURED;
        return;
    }
    for (size_t i = 0; i < value->count && (i < target->number_count || is_range(target)); i++) {
        double ours = value->numbers[i], paper = held_to(target, i, ours);
        within = within && is_one_within(target, ours, paper);
        if (!value->is_decided)
            keep_worst(out, relative_error(ours, paper));
    }
    if (target->class_of == PAPER_UNIDENTIFIABLE)
        out->kind = PAPER_NOT_IDENTIFIABLE;
    else if (value->found == PAPER_HOLDS)
        out->kind = value->holds ? PAPER_HOLDS_TRUE : PAPER_FAILS;
    else if (value->is_decided)
        out->kind = value->holds ? PAPER_WITHIN : PAPER_OUTSIDE;
    else
        out->kind = within ? PAPER_WITHIN : PAPER_OUTSIDE;
}
