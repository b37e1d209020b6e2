/* table.c -- the built-in models, one line each: the only other file that a new one touches. */
#include "table.h"

static const struct kvt_plugin_info *const law[] = {
    &kvt_law_tape.info,    &kvt_law_score.info,      &kvt_law_recorded.info,
    &kvt_law_indexer.info, &kvt_law_score_mass.info,
};

static const struct kvt_plugin_info *const speculation[] = {
    &kvt_speculation_none.info,   &kvt_speculation_dflash2.info,
    &kvt_speculation_dspark.info, &kvt_speculation_mtp.info,
    &kvt_speculation_eagle.info,  &kvt_speculation_eagle_tree.info,
    &kvt_speculation_medusa.info, &kvt_speculation_self_sparse.info,
};

static const struct kvt_plugin_info *const timing[] = {
    &kvt_timing_roofline.info,
    &kvt_timing_paper.info,
    &kvt_timing_cost_table.info,
    &kvt_timing_profile.info,
};

static const struct kvt_plugin_info *const import[] = {
    &kvt_import_rate.info,
    &kvt_import_paper.info,
};

#define LIST(table) (*count = sizeof(table) / sizeof(table)[0], (table))

const struct kvt_plugin_info *const *kvt_models_table(enum kvt_plugin_kind kind, size_t *count)
{
    switch (kind) {
    case KVT_PLUGIN_LAW:
        return LIST(law);
    case KVT_PLUGIN_SPECULATION:
        return LIST(speculation);
    case KVT_PLUGIN_TIMING:
        return LIST(timing);
    case KVT_PLUGIN_IMPORT:
        return LIST(import);
    default:
        *count = 0;
        return NULL;
    }
}
