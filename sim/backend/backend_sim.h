/* backend_sim.h -- the predicted backend: every row resolved, no kernel run. */
#ifndef KVT_BACKEND_SIM_H
#define KVT_BACKEND_SIM_H

#include "kvt/backend.h"

extern const struct kvt_backend_ops kvt_backend_sim;

#endif
