/* The part of a report that has a row a device: where its time went, what filled its memory. */
#ifndef REHEARSE_REPORT_DEVICES_H
#define REHEARSE_REPORT_DEVICES_H

#include "report/report.h"

/* Two tables. Of more than 16 devices, those whose rows read the same share one; if there are still
 * more, the first rows and those with the most or least of something stay. */
void devices_print(const struct report_case *c, FILE *out);

/* The model's name in parentheses at the end of a device's name, without them; "" if there is none.
 */
void device_model_name(const char *name, char out[64]);

#endif
