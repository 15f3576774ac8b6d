/* The numbers of a run: a plan's values computed on the host, list by list, without time. */
#ifndef REHEARSE_BACKENDS_REFERENCE_NUMBERS_H
#define REHEARSE_BACKENDS_REFERENCE_NUMBERS_H

#include "backends/backend.h"

struct numbers;

/* Memory for every worker's devices; RH_OUT_OF_MEMORY (both numbers named) if the host has too
 * little. */
enum rh_status numbers_new(const struct backend_options *options, const struct plan *plan,
                           struct numbers **out);
void numbers_free(struct numbers *numbers);
/* Runs the order's lists; `feed` may be NULL. losses[order->steps]: mean over the workers that take
 * a loss, NaN where nobody does; RH_INVALID if a buffer of losses has fewer slots than steps. */
enum rh_status numbers_run(struct numbers *numbers, const struct run_order *order,
                           const struct backend_feed *feed, double *losses);
/* Values of a persistent buffer; `numbers` NULL is the error of a session without numbers. */
enum rh_status numbers_write(struct numbers *numbers, int worker, int buffer, const void *data,
                             size_t bytes);
enum rh_status numbers_read(struct numbers *numbers, int worker, int buffer, void *data,
                            size_t bytes);

#endif
