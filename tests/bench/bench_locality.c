/* bench_locality.c -- how local the laws' selections are: score, tape and the reconstruction.
 *
 *     bench_locality [SEEDS [STEPS [CASE..]]]
 *
 * Sets A, B and C and the three presets at GLM-5.3's size, 100,032 rows of which 2,048 are
 * selected; mean and deviation over SEEDS runs (3) of one stream each. Each run has one tape, of
 * STEPS tokens; 0, the default, is what the law takes by itself. One JSON line a figure. The laws
 * agree where their means are within four standard errors of each other, or within a hundredth
 * and a thousandth of k. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/locality.h"

extern const struct kvt_law kvt_law_score;
extern const struct kvt_law kvt_law_tape;

static const struct kvt_law *const laws[] = {&kvt_law_score, &kvt_law_tape};

enum {
    LAWS = sizeof laws / sizeof laws[0],
    SEEDS_MAX = 64,
    STEPS_MAX = 65536,
    PARAMS_MAX = 64,
    SELECTORS = 21
};

/* Parameters are named, the others keep their defaults. */
struct setting {
    const char *param;
    double number; /* of a choice its index */
};

static const struct {
    const char *name;
    struct setting settings[6]; /* the last has no name */
} cases[] = {
    {"A, flat", {{"preset", 0}}},
    {"B, flat", {{"f0", .128}, {"f1", .665}, {"f2", .169}, {"tau1_tokens", 300}}},
    {"C, flat",
     {{"f0", .427}, {"f1", .256}, {"f2", .265}, {"tau1_tokens", 300}, {"tau2_tokens", 20}}},
    {"A, clustered", {{"preset", 1}}},
    {"A, skewed", {{"preset", 2}}},
};
enum {
    CASES = sizeof cases / sizeof cases[0]
};

/* What the reconstruction prints of set A; 0: nothing. Misses at random coverage come from
 * 2,120 tokens, those fetched from rounds that are counted exactly. */
static const struct locality printed = {
    .miss = {.319, .193, .139, .094, .072, .038, .020},
    .overlap = {.68, .63, .57, .48, .40, .34, .28},
    .unions = {1, 1.32, 1.54, 1.73, 1.89, 2.04, 2.17, 2.30},
    .covered = {.079, .036, .024, .014, .008, .002},
    .fetched = {.142, .48, .71, .90},
};

/* Settings end with one without a name. */
static void set_params(const struct kvt_law *law, const struct setting *settings,
                       struct kvt_param_value *values)
{
    for (; settings->param != NULL; settings++) {
        for (size_t i = 0; i < law->info.param_count; i++) {
            if (strcmp(settings->param, law->info.params[i].name) == 0)
                values[i].number = settings->number;
        }
    }
}

static void set_defaults(const struct kvt_law *law, struct kvt_param_value *values)
{
    for (size_t i = 0; i < law->info.param_count; i++) {
        const struct kvt_param_spec *spec = &law->info.params[i];
        bool is_choice = spec->type == KVT_PARAM_CHOICE; /* the first is the default */
        values[i] = (struct kvt_param_value){.number = is_choice ? 0 : spec->default_number};
    }
}

static void *prepared(const struct kvt_law *law, const struct setting *settings, uint64_t run_seed,
                      double steps)
{
    const struct setting of_tape[] = {{"tapes", 1}, {"steps", steps}, {.param = NULL}};
    const struct locality_scale *scale = &locality_full_scale;
    struct kvt_param_value values[PARAMS_MAX];
    set_defaults(law, values);
    set_params(law, of_tape, values);
    set_params(law, settings, values);
    struct kvt_law_env env = {.params = {.values = values, .count = law->info.param_count},
                              .top_k = scale->top_k,
                              .stream_count = SELECTORS,
                              .side_paths = 1,
                              .side_tokens = 7,
                              .context_rows = &scale->context_rows,
                              .context_tokens_per_row = &scale->tokens_per_row,
                              .context_count = 1,
                              .output_tokens = scale->tokens,
                              .run_seed = run_seed,
                              .threads = 1};
    void *data = NULL;
    struct kvt_error err;
    if (law->prepare(&env, &data, &err) != KVT_OK) {
        (void)fprintf(stderr, "bench_locality: %s: %s\n", err.where, err.message);
        exit(EXIT_FAILURE);
    }
    return data;
}

static void measure(const struct kvt_law *law, const struct setting *settings, size_t seeds,
                    double steps, struct locality *found)
{
    for (size_t s = 0; s < seeds; s++) {
        void *data = prepared(law, settings, s + 1, steps);
        /* A selector of each band of layers in turn. */
        uint32_t selector = (uint32_t)(s * 7 % SELECTORS);
        if (!locality_measure(law, data, &locality_full_scale, (uint32_t)s, selector, LOCALITY_ALL,
                              &found[s])) {
            fputs("bench_locality: a stream could not be measured\n", stderr);
            exit(EXIT_FAILURE);
        }
        law->free(data);
    }
}

static void print_figure(size_t c, const struct locality found[LAWS][SEEDS_MAX], size_t seeds,
                         size_t figure)
{
    char name[32];
    locality_figure_name(figure, name);
    struct locality_spread score = locality_spread_of(found[0], seeds, figure);
    struct locality_spread tape = locality_spread_of(found[1], seeds, figure);
    double error = hypot(score.deviation, tape.deviation) / sqrt((double)seeds);
    double apart = tape.mean - score.mean;
    bool agrees = fabs(apart) <= fmax(4 * error, 0.01 * score.mean + 0.001);
    (void)printf("{\"case\": \"%s\", \"figure\": \"%s\", \"score\": %.4f, \"score_sd\": %.4f, "
                 "\"tape\": %.4f, \"tape_sd\": %.4f, ",
                 cases[c].name, name, score.mean, score.deviation, tape.mean, tape.deviation);
    if (score.mean > 0)
        (void)printf("\"ratio\": %.3f, ", tape.mean / score.mean);
    if (error > 1e-9)
        (void)printf("\"z\": %.1f, ", apart / error);
    double expected = locality_figure(&printed, figure);
    if (c == 0 && expected > 0)
        (void)printf("\"reconstruction\": %.3f, ", expected);
    (void)printf("\"agrees\": %s}\n", agrees ? "true" : "false");
}

static void print_case(size_t c, size_t seeds, double steps)
{
    static struct locality found[LAWS][SEEDS_MAX];
    for (size_t l = 0; l < LAWS; l++)
        measure(laws[l], cases[c].settings, seeds, steps, found[l]);
    for (size_t f = 0; f < LOCALITY_FIGURES; f++)
        print_figure(c, (const struct locality(*)[SEEDS_MAX])found, seeds, f);
    (void)fflush(stdout);
}

static bool is_asked_for(size_t c, int argc, char **argv)
{
    for (int a = 3; a < argc; a++) {
        if (strcmp(argv[a], cases[c].name) == 0)
            return true;
    }
    return argc <= 3;
}

int main(int argc, char **argv)
{
    long seeds = argc > 1 ? strtol(argv[1], NULL, 10) : 3;
    long steps = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    if (seeds < 2 || seeds > SEEDS_MAX || steps < 0 || steps > STEPS_MAX) {
        (void)fprintf(stderr, "bench_locality: 2 to %d seeds and at most %d steps are expected\n",
                      SEEDS_MAX, STEPS_MAX);
        return EXIT_FAILURE;
    }
    for (size_t c = 0; c < CASES; c++) {
        if (is_asked_for(c, argc, argv))
            print_case(c, (size_t)seeds, (double)steps);
    }
    return EXIT_SUCCESS;
}
