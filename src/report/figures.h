/* Figures and words that more than one form of report shows, so that all forms say the same. */
#ifndef REHEARSE_REPORT_FIGURES_H
#define REHEARSE_REPORT_FIGURES_H

#include "report/report.h"

bool case_has_result(const struct report_case *c);
/* RH_FAILED too if there is neither a result nor a reason. */
enum rh_status case_status(const struct report_case *c);
const char *case_status_name(const struct report_case *c); /* "ok", "out_of_memory", ... */
int case_devices(const struct report_case *c);
/* The name of result->devices[index]; "device 7" if it has none. */
const char *case_name_at(const struct report_case *c, int index, char spare[32]);
/* Of a global device number. */
const char *case_device_name(const struct report_case *c, int device, char spare[32]);
double case_flops_per_second(const struct report_case *c); /* 0: unknown */
/* The device with the largest share of its memory in use; NULL without devices. */
const struct device_result *case_fullest(const struct report_case *c);
/* The case with most samples/s, the first of equals; -1 if none has any. */
int case_fastest(const struct report_case *cases, int count);
/* Why there is no result, in a few words on one line: "does not fit: 40.1 of 16.0 GiB". */
char *case_failure(const struct report_case *c, char out[128]);

double device_peak_bytes(const struct device_result *device);

/* A positive, finite number; else it counts as unknown. */
bool figure_known(double value);

/* A unit that a whole column shares. */
struct scale {
    double unit;
    const char *name;
    int decimals;
};
struct scale scale_seconds(double typical_seconds);
struct scale scale_bytes(double largest_bytes);
/* "1.204"; "-" for 0 and what is not finite; "<0.001" for what would read as 0. */
char *scaled(char out[32], struct scale scale, double value);
char *percent(char out[32], double part, double whole);  /* "84.0 %"; "-" if whole is unknown */
char *flops_text(char out[32], double flops_per_second); /* "31.2 TFLOP/s"; "-" if unknown */
/* Text, or "-" for NULL and "". */
const char *or_dash(const char *text);

#endif
