/* proof.c -- what checks of attention have shown, of ranks, runs and openings together. */
#include "kvt/backend.h"

void kvt_backend_proof_add(struct kvt_backend_proof *sum, const struct kvt_backend_proof *other)
{
    sum->calls += other->calls;
    sum->planned_calls += other->planned_calls;
    sum->checked_queries += other->checked_queries;
    sum->unequal_queries += other->unequal_queries;
    sum->double_queries += other->double_queries;
    sum->max_rel_error = kvt_worse_error(sum->max_rel_error, other->max_rel_error);
    sum->corrupted_rows += other->corrupted_rows;
    sum->corrupted_found += other->corrupted_found;
    sum->corrupted_queries += other->corrupted_queries;
    sum->imports.requests += other->imports.requests;
    sum->imports.checked_pages += other->imports.checked_pages;
    sum->imports.beside_bytes += other->imports.beside_bytes;
    sum->imports.joining_bytes += other->imports.joining_bytes;
    sum->imports.beside_ns += other->imports.beside_ns;
    sum->imports.joining_ns += other->imports.joining_ns;
    sum->imports.waited_ns += other->imports.waited_ns;
    sum->draft_rings += other->draft_rings;
    if (!sum->first_unequal)
        sum->first_unequal = other->first_unequal;
    if (!sum->not_representative)
        sum->not_representative = other->not_representative;
    if (!sum->scaled)
        sum->scaled = other->scaled;
}

bool kvt_backend_proof_is_precise(const struct kvt_backend_proof *proof, double tolerance)
{
    return proof->double_queries == 0 || proof->max_rel_error <= tolerance;
}

const char *kvt_backend_proof_corruption(const struct kvt_backend_proof *proof)
{
    if (proof->corrupted_rows == 0)
        return "no row was missed in a step that was to be spoilt: nothing was flipped";
    if (proof->corrupted_found < proof->corrupted_rows)
        return "a byte that was flipped was not found";
    if (proof->unequal_queries > proof->corrupted_queries)
        return "attention differs where nothing was flipped";
    return NULL;
}
