/* tree.c -- drafts as a tree, verified all at once: EAGLE's and Medusa's.
 *
 *     depth d has branching[d] candidates behind each node of the depth before
 *     K = 1 + all nodes
 *     accepted: from the anchor down, at each depth the first candidate that is taken,
 *               candidate 1 with the chance of the table, each further one, where all
 *               before it were not, with further_share of that
 *
 * An EAGLE head makes a depth in a pass, Medusa's heads make all in one. A node off
 * the accepted path is on a side path that left it where the first of its ancestors
 * was not taken; of several candidates behind such a node each goes on its own from
 * there, so that rejected siblings share less than they would. Trees are full; engines
 * prune the least likely nodes. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "course.h"

enum {
    PARAM_ACCEPTANCE,
    PARAM_BRANCHING,
    PARAM_FURTHER_SHARE,
    PARAM_DRAFTER,
    PARAM_COUNT
};

#define BRANCHING_PARAM(default_)                                                                  \
    {                                                                                              \
        .name = "branching", .help = "Candidates behind each node, depth by depth.",               \
        .type = KVT_PARAM_LIST, .minimum = 1, .maximum = DRAFTS_MAX, .default_text = (default_)    \
    }
#define FURTHER_SHARE_PARAM                                                                        \
    {                                                                                              \
        .name = "further_share",                                                                   \
        .help =                                                                                    \
            "Chance of a further candidate where those before it were rejected, as a share of "    \
            "the first one's; assumed.",                                                           \
        .type = KVT_PARAM_REAL, .minimum = 0, .maximum = 1, .default_number = 0.3                  \
    }
#define DRAFTER_PARAM(default_)                                                                    \
    {                                                                                              \
        .name = "drafter",                                                                         \
        .help = "Draft model: a shipped name, the path of a file, or none: heads of the model.",   \
        .type = KVT_PARAM_TEXT, .minimum = 1, .maximum = 4096, .default_text = (default_)          \
    }

static const struct kvt_param_spec eagle_tree_params[PARAM_COUNT] = {
    [PARAM_ACCEPTANCE] = ACCEPTANCE_PARAM("eagle3", NULL),
    [PARAM_BRANCHING] = BRANCHING_PARAM("[3, 2, 1, 1]"),
    [PARAM_FURTHER_SHARE] = FURTHER_SHARE_PARAM,
    [PARAM_DRAFTER] = DRAFTER_PARAM("glm-5.3-eagle"),
};

static const struct kvt_param_spec medusa_params[PARAM_COUNT] = {
    [PARAM_ACCEPTANCE] = ACCEPTANCE_PARAM("medusa", NULL),
    [PARAM_BRANCHING] = BRANCHING_PARAM("[4, 2, 1]"),
    [PARAM_FURTHER_SHARE] = FURTHER_SHARE_PARAM,
    [PARAM_DRAFTER] = DRAFTER_PARAM("none"),
};

struct tree {
    struct acceptance acceptance;
    uint64_t run_seed;
    double further_share;
    uint32_t depth;                      /* drafts of its longest path */
    uint32_t branching[DRAFTS_MAX];      /* [depth] */
    uint32_t first_node[DRAFTS_MAX + 2]; /* of each depth, the anchor at 0; then their sum */
    uint32_t first_draw[DRAFTS_MAX];     /* of each depth's candidates */
    uint32_t passes;
};

static void tree_free(void *method)
{
    struct tree *tree = method;
    if (tree == NULL)
        return;
    acceptance_fini(&tree->acceptance);
    free(tree);
}

static kvt_status set_branching(struct tree *tree, const struct kvt_param_value *branching,
                                struct kvt_error *err)
{
    static const char place[] = "speculation.branching";
    uint64_t nodes = 1; /* of the depth before */
    uint64_t all = 1;
    uint32_t draws = 0;
    if (branching->list_length == 0 || branching->list_length > DRAFTS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, place, "%zu depths; expected 1 to %d",
                        branching->list_length, DRAFTS_MAX);
    tree->first_node[1] = 1;
    for (uint32_t d = 0; d < branching->list_length; d++) {
        double candidates = branching->list[d];
        if (candidates != floor(candidates))
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "%g candidates at depth %u; expected a whole number", candidates,
                            d + 1);
        nodes *= (uint64_t)candidates;
        all += nodes;
        if (all > KVT_QUERIES_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "down to depth %u the tree has %llu queries, the anchor among them; "
                            "expected at most %d",
                            d + 1, (unsigned long long)all, KVT_QUERIES_MAX);
        tree->branching[d] = (uint32_t)candidates;
        tree->first_draw[d] = draws;
        tree->first_node[d + 2] = (uint32_t)all;
        draws += (uint32_t)candidates;
    }
    tree->depth = (uint32_t)branching->list_length;
    return KVT_OK;
}

static kvt_status prepare(const struct kvt_speculation_env *env, bool is_one_pass, void **out,
                          struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    const struct kvt_param_value *values = env->params.values;
    struct tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL)
        return kvt_fail_nomem(err, "a speculation method");
    tree->run_seed = env->run_seed;
    tree->further_share = values[PARAM_FURTHER_SHARE].number;
    kvt_status status = set_branching(tree, &values[PARAM_BRANCHING], err);
    if (status == KVT_OK)
        status = acceptance_load(values[PARAM_ACCEPTANCE].text, env->tasks, env->task_count,
                                 &tree->acceptance, err);
    if (status != KVT_OK) {
        tree_free(tree);
        return status;
    }
    tree->passes = is_one_pass ? 1 : tree->depth;
    *out = tree;
    return KVT_OK;
}

static kvt_status eagle_tree_prepare(const struct kvt_speculation_env *env, void **out,
                                     struct kvt_error *err)
{
    return prepare(env, false, out, err);
}

static kvt_status medusa_prepare(const struct kvt_speculation_env *env, void **out,
                                 struct kvt_error *err)
{
    return prepare(env, true, out, err);
}

/* Every leaf is the end of a side path where the first candidates are all rejected. */
static void tree_shape(const void *method, struct kvt_speculation_shape *shape)
{
    const struct tree *tree = method;
    uint32_t queries = tree->first_node[tree->depth + 1];
    *shape = (struct kvt_speculation_shape){
        .queries_max = queries,
        .side_paths = queries - tree->first_node[tree->depth],
        .side_tokens = tree->depth,
        .draft_passes = tree->passes,
        .basis = tree->acceptance.basis,
    };
}

static void tree_request_init(const void *method, void *state, uint32_t request, uint32_t task)
{
    const struct tree *tree = method;
    course_init(state, tree->run_seed, request, task);
}

/* Which of a node's candidates is taken; branching of that depth: none. */
static uint32_t taken_candidate(const struct tree *tree, const struct course *course,
                                uint32_t depth)
{
    double chance = tree->acceptance.lists[course->task].chances[depth];
    struct kvt_rng rng = course_draws(course, DRAW_ACCEPTANCE + tree->first_draw[depth], 0);
    uint32_t candidate = 0;
    for (; candidate < tree->branching[depth]; candidate++) {
        double share = candidate == 0 ? 1 : tree->further_share;
        if (kvt_rng_unit(&rng) < chance * share)
            break;
    }
    return candidate;
}

/* The deepest whole depth within so many queries. */
static uint32_t depths_within(const struct tree *tree, uint32_t queries_max)
{
    uint32_t depths = tree->depth;
    while (depths > 0 && tree->first_node[depths + 1] > queries_max)
        depths--;
    return depths;
}

/* The nodes of one depth behind those of the one before it, of which node `on_path` is accepted
 * and has `taken` as its accepted candidate. *side_paths counts those there are. */
static void plan_depth(const struct tree *tree, uint32_t depth, uint32_t on_path, uint32_t taken,
                       uint32_t *side_paths, struct kvt_round *round)
{
    uint32_t first = tree->first_node[depth + 1];
    uint32_t end = tree->first_node[depth + 2];
    for (uint32_t node = first; node < end; node++) {
        uint32_t parent = tree->first_node[depth] + (node - first) / tree->branching[depth];
        uint32_t candidate = (node - first) % tree->branching[depth];
        struct kvt_law_query *query = &round->queries[node];
        *query = (struct kvt_law_query){.depth = depth + 1};
        if (round->queries[parent].path == 0) {
            if (parent == on_path && candidate == taken)
                continue;
            query->path = ++*side_paths;
            query->fork = depth + 1;
        } else {
            query->path = candidate == 0 ? round->queries[parent].path : ++*side_paths;
            query->fork = round->queries[parent].fork;
        }
    }
}

static void plan_round(const struct tree *tree, const struct kvt_speculation_request *request,
                       struct kvt_round *round)
{
    struct course *course = request->state;
    uint32_t depths = depths_within(tree, request->queries_max);
    uint32_t side_paths = 0;
    uint32_t accepted = 0; /* depths */
    uint32_t on_path = 0;  /* the deepest accepted node */
    round->queries[0] = (struct kvt_law_query){.depth = 0};
    for (uint32_t depth = 0; depth < depths; depth++) {
        bool goes_on = accepted == depth;
        uint32_t taken = goes_on ? taken_candidate(tree, course, depth) : tree->branching[depth];
        plan_depth(tree, depth, on_path, taken, &side_paths, round);
        if (taken == tree->branching[depth])
            continue;
        on_path = tree->first_node[depth + 1] +
                  (on_path - tree->first_node[depth]) * tree->branching[depth] + taken;
        accepted++;
    }
    course_end_round(course);
    round->query_count = tree->first_node[depths + 1];
    round->draft_tokens = round->query_count - 1;
    round->committed_tokens = 1 + accepted;
}

static void tree_plan(const void *method, const struct kvt_speculation_view *view,
                      struct kvt_round *rounds)
{
    for (uint32_t i = 0; i < view->request_count; i++)
        plan_round(method, &view->requests[i], &rounds[i]);
}

COURSE_METHOD(tree, kvt_speculation_eagle_tree, "eagle-tree",
              "a tree of drafts by an EAGLE head, a pass a depth", eagle_tree_params,
              eagle_tree_prepare);
COURSE_METHOD(tree, kvt_speculation_medusa, "medusa",
              "a tree of drafts by Medusa heads, all in one pass", medusa_params, medusa_prepare);
