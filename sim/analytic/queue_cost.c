/* queue_cost.c -- a queue in mean values: what leaves it in a while.
 *
 *     number present = s rho + rho^sqrt(2(s+1)) / (1 - rho) x variability     (stationary)
 *     present at the end + served = present,  served = rho s dt / service
 *
 * The first line is Sakasegawa's approximation of G/G/s, exact for M/G/1; read backwards
 * at each moment it is a pointwise stationary fluid flow. H. Sakasegawa, "An approximation
 * formula Lq = alpha rho^beta / (1 - rho)", Ann. Inst. Stat. Math. 29, 1977; W. Wang,
 * D. Tipper, S. Banerjee, "A simple approximation for modeling nonstationary queues",
 * INFOCOM 1996. */
#include <math.h>

#include "march.h"

double queue_served(double present, double servers, double service_s, double variability,
                    double dt_s)
{
    double low = 0, high = 1, power = sqrt(2 * (servers + 1));

    if (present <= 0 || dt_s <= 0)
        return 0;
    if (service_s <= 0)
        return present;
    double most = servers * dt_s / service_s; /* when no server is ever idle */
    for (int i = 0; i < 48; i++) {
        double rho = 0.5 * (low + high);
        double there = servers * rho + pow(rho, power) / (1 - rho) * variability;
        if (there + rho * most < present)
            low = rho;
        else
            high = rho;
    }
    double served = low * most;
    return served < present ? served : present;
}
