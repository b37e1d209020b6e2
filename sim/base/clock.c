/* clock.c -- wall time for reports, and exact conversions to simulated time. */
#include "kvt/clock.h"

#include <assert.h>
#include <math.h>
#include <time.h>

__extension__ typedef unsigned __int128 wide;

struct kvt_wall kvt_wall_now(void)
{
    /* CLOCK_MONOTONIC with a valid pointer cannot fail on Linux. */
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (struct kvt_wall){.ns = (int64_t)now.tv_sec * KVT_NS_PER_S + (int64_t)now.tv_nsec};
}

double kvt_wall_seconds_since(struct kvt_wall start)
{
    return (double)(kvt_wall_now().ns - start.ns) / 1e9;
}

kvt_ns kvt_ns_for_bytes(uint64_t bytes, uint64_t bytes_per_s)
{
    assert(bytes_per_s >= 1);
    const uint64_t ns_per_s = (uint64_t)KVT_NS_PER_S;

    /* Up to 18 GB the product fits in 64 bits, whose division is several times
     * cheaper; the simulator asks for every fetch of every step. */
    if (bytes <= UINT64_MAX / ns_per_s) {
        uint64_t product = bytes * ns_per_s;
        uint64_t ns = product / bytes_per_s + (product % bytes_per_s != 0);
        return ns > INT64_MAX ? INT64_MAX : (kvt_ns)ns;
    }
    wide product = (wide)bytes * ns_per_s;
    wide ns = product / bytes_per_s + (product % bytes_per_s != 0);
    return ns > INT64_MAX ? INT64_MAX : (kvt_ns)ns;
}

bool kvt_ns_from_seconds(double seconds, kvt_ns *out)
{
    const double most_ns = 0x1p62;
    if (!(seconds >= 0.0) || seconds * 1e9 > most_ns)
        return false;

    /* Whole seconds apart from the rest: their difference is exact, and the
     * rest keeps all its bits through the multiplication. */
    double whole = floor(seconds);
    kvt_ns ns = (kvt_ns)whole * KVT_NS_PER_S + (kvt_ns)llround((seconds - whole) * 1e9);
    if (ns > INT64_C(1) << 62)
        return false;
    *out = ns;
    return true;
}
