/* table.h -- the built-in models: declarations, and the list of them. */
#ifndef KVT_MODELS_TABLE_H
#define KVT_MODELS_TABLE_H

#include "kvt/law.h"
#include "kvt/speculation.h"
#include "kvt/timing.h"

extern const struct kvt_law kvt_law_tape;
extern const struct kvt_law kvt_law_score;
extern const struct kvt_law kvt_law_score_mass;
extern const struct kvt_law kvt_law_recorded;
extern const struct kvt_law kvt_law_indexer;

extern const struct kvt_speculation_method kvt_speculation_none;
extern const struct kvt_speculation_method kvt_speculation_dflash2;
extern const struct kvt_speculation_method kvt_speculation_dspark;
extern const struct kvt_speculation_method kvt_speculation_mtp;
extern const struct kvt_speculation_method kvt_speculation_eagle;
extern const struct kvt_speculation_method kvt_speculation_eagle_tree;
extern const struct kvt_speculation_method kvt_speculation_medusa;
extern const struct kvt_speculation_method kvt_speculation_self_sparse;

extern const struct kvt_timing_model kvt_timing_roofline;
extern const struct kvt_timing_model kvt_timing_paper;
extern const struct kvt_timing_model kvt_timing_cost_table;
extern const struct kvt_timing_model kvt_timing_profile;

extern const struct kvt_import_law kvt_import_rate;
extern const struct kvt_import_law kvt_import_paper;

#endif
