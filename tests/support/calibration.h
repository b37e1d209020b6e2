/* calibration.h -- what tests of calibrations ask of one. */
#ifndef TEST_CALIBRATION_H
#define TEST_CALIBRATION_H

#include <check.h>
#include <math.h>

#include "cli/measure/calibrate_gpu.h"

static inline struct gpu_calibration calibrated(const struct points *points)
{
    struct gpu_calibration calibration;
    struct kvt_error err = {0};

    ck_assert_msg(calibrate_fit(points, &calibration, &err) == KVT_OK, "%s", err.message);
    return calibration;
}

static inline void assert_ns(double found, double expected, double share)
{
    ck_assert_msg(fabs(found / expected - 1) <= share, "%g, not %g", found, expected);
}

static inline const struct family_term *term_of(const struct family_fit *fit, uint32_t limit,
                                                enum kvt_profile_feature feature)
{
    for (uint32_t t = 0; t < fit->term_count; t++) {
        if (fit->terms[t].limit == limit && fit->terms[t].feature == feature)
            return &fit->terms[t];
    }
    ck_abort_msg("no term %s", kvt_profile_feature_name(feature));
}

#endif
