/* queue_cost.c -- a queue in mean values: what leaves it in a while.
 *
 *     number present = s rho + rho^sqrt(2(s+1)) / (1 - rho) x variability     (stationary)
 *     present at the end + served = present,  served = rho s dt / service
 *
 * The first line is Sakasegawa's approximation of G/G/s, exact for M/G/1; read backwards
 * at each moment it is a pointwise stationary fluid flow. H. Sakasegawa, "An approximation
 * formula Lq = alpha rho^beta / (1 - rho)", Ann. Inst. Stat. Math. 29, 1977; W. Wang,
 * D. Tipper, S. Banerjee, "A simple approximation for modeling nonstationary queues",
 * INFOCOM 1996. The exponent is taken in 64ths, and the power by products and square roots alone,
 * which round alike everywhere, as pow() does not. */
#include <math.h>
#include <stdint.h>

#include "march.h"

enum {
    EXPONENT_BITS = 6 /* behind the point */
};

/* base^(exponent / 2^EXPONENT_BITS), of a base in [0, 1]. */
static double power_of(double base, uint64_t exponent)
{
    double power = 1, root = base;

    for (int bit = EXPONENT_BITS - 1; bit >= 0; bit--) {
        root = sqrt(root);
        if (exponent >> bit & 1)
            power *= root;
    }
    for (exponent >>= EXPONENT_BITS; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            power *= base;
        base *= base;
    }
    return power;
}

/* How seldom a backlog's servers are idle, of what the stationary law has. A walk with drift d and
 * variance 2v loses v / d services before it is gone for good; v exp(-d x / 1.8 v) in the place of
 * v loses as many on its way up. The exponential is taken as (1 + y/8)^-8. */
static double of_idle(double present, double variability, double load)
{
    double y = load > 1 && variability > 0 ? (load - 1) * present / (1.8 * variability) : 0;
    double root = 1 + y / 8;

    root *= root;
    root *= root;
    return 1 / (root * root);
}

double queue_served(double present, double servers, double service_s, double variability,
                    double load, double dt_s)
{
    double low = 0, high = 1;
    uint64_t exponent = (uint64_t)rint(sqrt(2 * (servers + 1)) * (1 << EXPONENT_BITS));

    if (present <= 0 || dt_s <= 0)
        return 0;
    if (service_s <= 0)
        return present;
    double most = servers * dt_s / service_s; /* when no server is ever idle */
    variability *= of_idle(present, variability, load);
    for (int i = 0; i < 48; i++) {
        double rho = 0.5 * (low + high);
        double there = servers * rho + power_of(rho, exponent) / (1 - rho) * variability;
        if (there + rho * most < present)
            low = rho;
        else
            high = rho;
    }
    double served = low * most;
    return served < present ? served : present;
}

/*     pages wanted, in requests = rho / 2 + (1 - 1/n) rho^2 / (2 (1 - rho))
 *
 * The work before a server whose customers come whole and are served evenly: half of the one in
 * hand, and M/D/1's queue, less as much as n requests cannot queue behind themselves. As a flow
 * alone, pages would be there as soon as the rate suffices. */
double refill_done(double want, double each, double requests, double most)
{
    double low = 0, high = 1, others = requests > 1 ? 1 - 1 / requests : 0;

    if (want <= 0 || each <= 0)
        return 0;
    for (int i = 0; i < 48; i++) {
        double rho = 0.5 * (low + high);
        double left = each * (0.5 * rho + others * rho * rho / (2 * (1 - rho)));
        if (left + rho * most < want)
            low = rho;
        else
            high = rho;
    }
    return fmin(low * most, want);
}
