/* test_dense_shape.cu -- the stand-in's products read and compute what the model files say; no
 * device is needed. */
#include "cuda/device.h"

#include <cmath>

#include <string>

#include "dense.h"
#include "draft_dense.h"
#include "kvt/json.h"

/* Of this checkout, or of the tarball whose folder this is. */
template <typename Model, typename Read>
static Model shipped(struct kvt_arena *arena, const std::string &name, Read read)
{
    Model model = {};
    struct kvt_error err = {};
    for (const char *folder : {"models/", "share/kvt/models/"}) {
        const std::string path = folder + name + ".json";
        cJSON *tree = nullptr;
        kvt_status status = kvt_json_load(path.c_str(), 1 << 20, &tree, &err);
        if (status == KVT_OK)
            status = read(tree, path.c_str(), arena, &model, &err);
        cJSON_Delete(tree);
        if (status == KVT_OK)
            return model;
    }
    std::printf("failed: %s: %s\n0 passed, 1 failed\n", err.where, err.message);
    std::exit(1);
}

static struct kvt_llm model(struct kvt_arena *arena, const std::string &name)
{
    return shipped<struct kvt_llm>(arena, "llm/" + name, kvt_llm_from_json);
}

static void near(device::tally *tally, const char *what, double expected, double found,
                 double tolerance)
{
    tally->check(std::fabs(found - expected) <= tolerance * expected,
                 "%s: expected %.4g within %g, found %.4g", what, expected, tolerance, found);
}

/* Over all GPUs of a group, every byte of the file is there once a token touches every expert. */
static void bytes_are_the_files(device::tally *tally, struct kvt_arena *arena)
{
    const char *const names[] = {"glm-5", "glm-5.3", "deepseek-v3.2", "deepseek-v4-flash",
                                 "deepseek-v4.1-flash"};
    const uint32_t groups[][2] = {{1, 1}, {4, 1}, {8, 8}, {1, 8}, {1, 32}};
    for (const char *name : names) {
        struct kvt_llm llm = model(arena, name);
        for (const uint32_t *group : groups) {
            const uint32_t tp = group[0], ep = group[1];
            struct kvt_dense_shape shape;
            struct kvt_error err;
            if (!tally->check(kvt_dense_shape_make(&llm, tp, ep, &shape, &err) == KVT_OK,
                              "%s, tp %u, ep %u: %s", name, tp, ep, err.message))
                continue;
            char what[128];
            std::snprintf(what, sizeof what, "%s, tp %u, ep %u: bytes of all layers", name, tp, ep);
            /* What each rank of a replica has alike counts once. */
            double alike = (double)llm.layers * shape.hidden * shape.latent;
            double dense = (kvt_dense_read_bytes(&shape, 0) * llm.layers - alike) * tp + alike;
            double experts =
                kvt_dense_read_bytes(&shape, 1 << 20) - kvt_dense_read_bytes(&shape, 0);
            uint32_t gpus = ep > tp ? ep : tp;
            near(tally, what, llm.weight_bytes, dense + experts * llm.layers * gpus, 0.02);
        }
    }
}

static void one_token_takes_its_experts(device::tally *tally, struct kvt_arena *arena)
{
    struct kvt_llm llm = model(arena, "glm-5.3");
    struct kvt_dense_shape shape;
    struct kvt_error err;
    uint32_t each = 0;

    tally->check(kvt_dense_shape_make(&llm, 1, 1, &shape, &err) == KVT_OK, "%s", err.message);
    tally->check(kvt_dense_touched(&shape, 1, &each) == 8 && each == 1,
                 "one token: 8 experts with 1 each expected, found %u with %u",
                 kvt_dense_touched(&shape, 1, &each), each);
    /* All GLM-5.3 weights are FP8, two operations a weight; the file's 40e9 parameters leave out
     * the draft layer and what is looked up, which its bytes have. */
    near(tally, "operations of a token", 2 * llm.active_parameters,
         kvt_dense_operations(&shape, 1) * llm.layers, 0.15);
    tally->check(kvt_dense_shape_make(&llm, 1, 8, &shape, &err) == KVT_OK, "%s", err.message);
    tally->check(shape.local_experts == 32 && shape.replicas == 8, "32 experts, 8 replicas");
    tally->check(kvt_dense_touched(&shape, 256, &each) == 32 && each == 64,
                 "256 tokens of 8 replicas: 32 experts with 64 each expected, found %u", each);
}

/* Scaled down until an expert is narrower than a product can be: its bytes are still read. */
static void experts_of_a_tiny_model_join_the_rest(device::tally *tally, struct kvt_arena *arena)
{
    struct kvt_llm llm = model(arena, "glm-5.3");
    struct kvt_dense_shape shape;
    struct kvt_error err;

    llm.weight_bytes = 2.15e9;
    llm.dense_weight_bytes = 0.5e9;
    tally->check(kvt_dense_shape_make(&llm, 1, 1, &shape, &err) == KVT_OK, "%s", err.message);
    tally->check(shape.inner == 0 && shape.local_experts == 0,
                 "no experts expected, found %u of %u", shape.local_experts, shape.inner);
    near(tally, "bytes of a tiny model", llm.weight_bytes,
         kvt_dense_read_bytes(&shape, 1) * llm.layers, 0.02);
    llm.weight_bytes = 1e6;
    llm.dense_weight_bytes = 1e5;
    tally->check(kvt_dense_shape_make(&llm, 4, 1, &shape, &err) == KVT_OK && shape.wide == 16,
                 "a megabyte of weights: 16 wide expected, found %u", shape.wide);
    tally->check(kvt_dense_shape_make(&llm, 1, 512, &shape, &err) == KVT_ERR_UNSUPPORTED,
                 "512 GPUs for 256 experts were not refused");
}

/* Every byte of a drafter's file is read in a pass; products of its heads and widths are its own.
 */
static void a_pass_reads_its_file(device::tally *tally, struct kvt_arena *arena)
{
    struct kvt_drafter drafter =
        shipped<struct kvt_drafter>(arena, "drafters/glm-5.3-dflash2", kvt_drafter_from_json);
    for (uint32_t tp : {1u, 2u, 4u, 8u, 16u}) {
        const struct kvt_draft_dense_shape shape = kvt_draft_dense_shape_make(&drafter, tp);
        char what[96];
        std::snprintf(what, sizeof what, "bytes of a pass, tp %u", tp);
        near(tally, what, drafter.weight_bytes / tp, kvt_draft_dense_read_bytes(&shape), 0.02);
        tally->check(shape.heads == 64 / tp && shape.kv_heads == (tp < 8 ? 8 / tp : 1) &&
                         shape.joined == 6144 / tp && shape.inner == 12288 / tp &&
                         shape.hidden == 6144 && shape.taps == 6,
                     "tp %u: %u heads on %u, %u joined, %u inner", tp, shape.heads, shape.kv_heads,
                     shape.joined, shape.inner);
        near(tally, "operations of 8 tokens", 8 * drafter.weight_bytes / tp,
             kvt_draft_dense_operations(&shape, 8, 8), 0.1);
    }
}

int main()
{
    device::tally tally;
    struct kvt_arena *arena = kvt_arena_new(1 << 16);

    bytes_are_the_files(&tally, arena);
    one_token_takes_its_experts(&tally, arena);
    experts_of_a_tiny_model_join_the_rest(&tally, arena);
    a_pass_reads_its_file(&tally, arena);
    kvt_arena_free(arena);
    return tally.close();
}
