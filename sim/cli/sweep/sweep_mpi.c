/* sweep_mpi.c -- the seam to MPI, built with mpicc into a shared object of its own. */
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

#include "sweep_transport.h"

/* With errors returned, where MPI would end the process. */
static bool begin(int *rank, int *rank_count)
{
    int provided = 0;

    return MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS &&
           provided >= MPI_THREAD_FUNNELED &&
           MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
           MPI_Comm_rank(MPI_COMM_WORLD, rank) == MPI_SUCCESS &&
           MPI_Comm_size(MPI_COMM_WORLD, rank_count) == MPI_SUCCESS;
}

static bool send(int to, const void *bytes, size_t byte_count)
{
    return byte_count <= INT_MAX &&
           MPI_Send(bytes, (int)byte_count, MPI_BYTE, to, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
}

static bool receive(int *from, char **bytes, size_t *byte_count)
{
    MPI_Message message;
    MPI_Status status;
    int is_here = 0, count = 0;

    *bytes = NULL;
    if (MPI_Improbe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &is_here, &message, &status) != MPI_SUCCESS)
        return false;
    if (!is_here)
        return true;
    if (MPI_Get_count(&status, MPI_BYTE, &count) != MPI_SUCCESS)
        return false;
    *bytes = malloc((size_t)count + 1);
    if (*bytes == NULL)
        return false;
    (*bytes)[count] = '\0';
    *byte_count = (size_t)count;
    *from = status.MPI_SOURCE;
    return MPI_Mrecv(*bytes, count, MPI_BYTE, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

static void end(void)
{
    (void)MPI_Finalize();
}

static void abandon(int exit_code)
{
    (void)MPI_Abort(MPI_COMM_WORLD, exit_code);
    exit(exit_code);
}

sweep_transport_entry kvt_sweep_transport;
const struct sweep_transport *kvt_sweep_transport(void)
{
    static const struct sweep_transport transport = {.abi = SWEEP_TRANSPORT_ABI,
                                                     .begin = begin,
                                                     .send = send,
                                                     .receive = receive,
                                                     .end = end,
                                                     .abandon = abandon};

    return &transport;
}
