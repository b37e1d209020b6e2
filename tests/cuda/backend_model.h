/* cuda/backend_model.h -- the models that test_backend runs, and plug-ins with their defaults. */
#ifndef KVT_TESTS_CUDA_BACKEND_MODEL_H
#define KVT_TESTS_CUDA_BACKEND_MODEL_H

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/backend_settings.h"
#include "kvt/backend.h"

namespace
{

/* ---- A small model -------------------------------------------------------------------- */

/* As models/llm/glm-5.3.json. */
void make_large(struct kvt_llm &llm)
{
    llm.name = "glm-5.3";
    llm.layers = 78;
    llm.hidden = 6144;
    llm.top_k = 2048;
    llm.max_position_tokens = 1048576;
    llm.experts = 256;
    llm.experts_active = 8;
    llm.weight_bytes = 755616817611;
    llm.dense_weight_bytes = 20998095110;
    llm.active_parameters = 40e9;
    llm.store_count = llm.selector_count = 21;
    for (uint32_t s = 0; s < 21; s++) {
        llm.stores[s].first_layer = s < 2 ? s : 2 + 4 * (s - 2);
        llm.stores[s].layers = s < 2 ? 1 : 4;
        llm.stores[s].compress_ratio = 1;
        llm.selectors[s].layer = llm.stores[s].first_layer;
        llm.selectors[s].store = s;
    }
}

struct kvt_llm small_model(const setting &with)
{
    struct kvt_llm llm = {};
    const uint32_t layers[] = {1, 1, 4, 2};
    uint32_t first = 0;

    llm.name = "small";
    llm.layers = 8;
    llm.hidden = 1024;
    llm.heads = 64;
    llm.latent_dim = with.row_bytes == 288 ? 448 : 512;
    llm.rope_dim = 64;
    llm.index_heads = 32;
    llm.index_dim = 128;
    llm.top_k = TOP_K;
    llm.max_position_tokens = 16384;
    llm.experts = 8;
    llm.experts_active = 2;
    llm.dense_weight_bytes = 8 * 4e6;
    llm.weight_bytes = llm.dense_weight_bytes + 8 * 8 * 3.0 * 1024 * 512;
    llm.active_parameters = 5e7;
    llm.payload.name = "rows";
    llm.payload.capacity_bytes = llm.payload.wire_bytes = with.row_bytes;
    llm.index.name = "index";
    llm.index.capacity_bytes = llm.index.wire_bytes = 132;
    llm.store_count = 4;
    llm.selector_count = 4;
    for (uint32_t s = 0; s < llm.store_count; s++) {
        llm.stores[s].first_layer = first;
        llm.stores[s].layers = layers[s];
        llm.stores[s].compress_ratio = s == 3 ? with.ratio : 1;
        llm.selectors[s].layer = first;
        llm.selectors[s].store = s;
        first += layers[s];
    }
    if (with.large)
        make_large(llm);
    if (with.ratio > 1) { /* two selectors read the last store */
        llm.stores[3].layers = 1;
        llm.selectors[4].layer = 7;
        llm.selectors[4].store = 3;
        llm.selector_count = 5;
    }
    return llm;
}

struct shaped_drafter {
    struct kvt_drafter drafter;
    uint32_t passes;
    bool runs, has_ring;
};

/* name, path, summary; layers, kv heads, head_dim; window, slack; block_max; bytes of a value and
 * of weights; hidden, heads, inner, taps, lead; for whom. Passes of a round of 8. */
const struct shaped_drafter drafters[] = {
    {{"block", "", "", 2, 2, 128, 192, 32, 9, 1, 21e6, {1024, 16, 512, 2, 1}, nullptr, 0},
     1,
     true,
     true},
    {{"layers", "", "", 1, 1, 576, 0, 0, 8, 1, 0, {}, nullptr, 0}, 7, true, false},
    /* Whose file does not say what a pass computes. */
    {{"one row", "", "", 3, 1, 512, 128, 0, 8, 0.515625, 0, {}, nullptr, 0}, 1, false, true},
    /* As models/drafters/glm-5.3-dflash2.json. */
    {{"glm-5.3-dflash2",
      "",
      "",
      6,
      8,
      128,
      2048,
      128,
      8,
      1,
      4917737554,
      {6144, 64, 12288, 6, 1},
      nullptr,
      0},
     1,
     true,
     true},
};

/* ---- Plug-ins with their defaults ----------------------------------------------------- */

double choice_number(const struct kvt_param_spec &spec)
{
    double index = 0;
    std::string choices = spec.choices, wanted = spec.default_text;

    for (size_t at = 0; at <= choices.size(); index++) {
        size_t end = choices.find('|', at);
        end = end == std::string::npos ? choices.size() : end;
        if (choices.substr(at, end - at) == wanted)
            return index;
        at = end + 1;
    }
    return 0;
}

struct chosen {
    std::vector<struct kvt_param_value> values;
    struct kvt_choice choice = {};
    double all_devices = -1;

    void take(const struct kvt_plugin_info *info)
    {
        values.assign(info->param_count + 1, {});
        for (size_t i = 0; i < info->param_count; i++) {
            values[i].number = info->params[i].default_number;
            values[i].text = info->params[i].default_text;
            if (info->params[i].type == KVT_PARAM_CHOICE)
                values[i].number = choice_number(info->params[i]);
            if (info->params[i].type == KVT_PARAM_LIST) {
                values[i].list = &all_devices;
                values[i].list_length = 1;
            }
        }
        choice.info = info;
        choice.params.values = values.data();
        choice.params.count = info->param_count;
    }
    bool find(enum kvt_plugin_kind kind, const char *name)
    {
        const struct kvt_plugin_info *info = nullptr;
        struct kvt_error err = {};
        if (kvt_plugin_find(NULL, kind, name, "test", &info, &err) != KVT_OK) {
            std::printf("failed: %s: %s\n", err.where, err.message);
            return false;
        }
        take(info);
        return true;
    }
};

} // namespace

#endif
