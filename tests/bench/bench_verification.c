/* bench_verification.c -- adaptive verification beside fixed draft lengths, and beside vLLM's.
 *
 * DSpark alone in a loop, timed by the measured steps of DeepSeek-V4-Flash on four B300
 * (models/costs/deepseek-v4-flash-b300.json), with the chances of
 * models/acceptance/v4-pro-dspark.json. vLLM's figure is of another model, V4-Pro on eight
 * B300, so that speeds differ and the order of the schemes is what compares: tokens a
 * second of one user, and in brackets vLLM's. One table, then what each round verified. */
#include <stdio.h>
#include <stdlib.h>

#include "support/verification_loop.h"

enum {
    LOADS = 6,
    SCHEMES = 8,
    REQUEST_ROUNDS = 1 << 16
};

static const uint32_t loads[LOADS] = {1, 16, 32, 64, 128, 256};

/* vLLM blog 2026-08-14, figure 3, V4-Pro-0813, TP8: read off its SVG. It has no 2. */
static const struct {
    const char *name;
    int scheme;
    double vllm[LOADS]; /* 0: not in the figure */
} schemes[SCHEMES] = {
    {"no speculation", VERIFICATION_NONE, {101, 71.8, 53.6, 45.7, 37.3, 29.4}},
    {"1 draft", 1, {154, 90.7, 77.9, 64.2, 50.3, 39.8}},
    {"2 drafts", 2, {0}},
    {"3 drafts", 3, {233, 125.8, 103.6, 82.0, 64.2, 44.2}},
    {"5 drafts", 5, {257, 128.9, 103.9, 84.1, 59.9, 39.9}},
    {"6 drafts", 6, {260, 129.3, 102.1, 81.9, 57.9, 37.4}},
    {"7 drafts", 7, {253, 126.1, 98.9, 79.2, 54.6, 34.3}},
    {"adaptive", VERIFICATION_ADAPTIVE, {272, 136.0, 113.3, 88.9, 65.5, 44.5}},
};

static struct verification_rate run(uint32_t requests, int scheme)
{
    struct verification_loop loop = {
        .acceptance_path = KVT_TEST_ROOT "/models/acceptance/v4-pro-dspark.json",
        .costs_path = KVT_TEST_ROOT "/models/costs/deepseek-v4-flash-b300.json",
        .requests = requests,
        .scheme = scheme,
        .lag_rounds = 2,
        .rounds = REQUEST_ROUNDS / requests,
        .seed = 1,
    };
    struct verification_rate rate = {0};
    struct kvt_error err;
    if (verification_run(&loop, &rate, &err) != KVT_OK) {
        (void)fprintf(stderr, "bench_verification: %s: %s\n", err.where, err.message);
        exit(EXIT_FAILURE);
    }
    return rate;
}

int main(void)
{
    struct verification_rate rates[SCHEMES][LOADS];
    printf("tokens/s/user   ");
    for (size_t load = 0; load < LOADS; load++)
        printf("          c%-4u", loads[load]);
    for (size_t i = 0; i < SCHEMES; i++) {
        printf("\n%-16s", schemes[i].name);
        for (size_t load = 0; load < LOADS; load++) {
            rates[i][load] = run(loads[load], schemes[i].scheme);
            printf(" %6.1f", rates[i][load].user_tokens_per_s);
            if (schemes[i].vllm[load] > 0)
                printf(" (%5.1f)", schemes[i].vllm[load]);
            else
                printf("        ");
        }
    }
    printf("\nof the best fixed");
    for (size_t load = 0; load < LOADS; load++) {
        double best = 0;
        for (size_t i = 0; i + 1 < SCHEMES; i++) {
            if (rates[i][load].user_tokens_per_s > best)
                best = rates[i][load].user_tokens_per_s;
        }
        printf("%6.1f %%       ", 100 * rates[SCHEMES - 1][load].user_tokens_per_s / best);
    }
    printf("\nverified/round  ");
    for (size_t load = 0; load < LOADS; load++)
        printf(" %6.2f        ", rates[SCHEMES - 1][load].verified_per_round);
    printf("\n");
    return EXIT_SUCCESS;
}
