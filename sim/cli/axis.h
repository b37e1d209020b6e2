/* axis.h -- a key of the scenario and the values that it is to have: "PATH=V1,V2,..". */
#ifndef KVT_CLI_AXIS_H
#define KVT_CLI_AXIS_H

#include "kvt/arena.h"
#include "kvt/error.h"

enum {
    CLI_AXIS_VALUES_MAX = 1000000
};

/* "PATH=" .. each of these is a change of a scenario, as --set takes one. */
struct cli_axis {
    const char *path;          /* dotted */
    const char *const *values; /* [value_count] one at least, in the order given; none is empty */
    size_t value_count;
};

/* Whether path is the key `above`, or lies below it. */
bool cli_path_holds(const char *above, const char *path);

/* Length of text up to the next comma that parts two values, or to its end: those inside brackets,
 * braces and quotes belong to a value. */
size_t cli_piece_length(const char *text);

/* "PATH=V1,V2,.." into *out, which lives in the arena. Values are texts as --set takes them, kept
 * as they are written. A value that is made of numbers and colons alone is a range:
 *
 *     LOW:HIGH:STEP     LOW, LOW + STEP, .. up to HIGH, with as many decimals as LOW or STEP has
 *     LOW:HIGH:*FACTOR  LOW, LOW x FACTOR, .. up to HIGH, to 15 digits
 *
 * HIGH is of it where it is met. In multiples of top-k, as residency.hot_tokens takes them, numbers
 * have a k behind them, all but a factor: 2k:8k:1k. A text of such a form is written in quotes.
 * Ranges and other values may stand side by side.
 *
 * where: the option, for messages. Refused (KVT_ERR_INVALID), with the text that is wrong: no '=',
 * no path, a blank in it, an empty value, a range that is empty or has no end, and more than
 * CLI_AXIS_VALUES_MAX values. */
KVT_CHECKED kvt_status cli_axis_parse(const char *text, const char *where, struct kvt_arena *arena,
                                      struct cli_axis *out, struct kvt_error *err);

#endif
