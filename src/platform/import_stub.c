#include "platform/platform.h"
enum rh_status platform_import(struct platform *p, const char *path, const char *device, const char *name, const struct node_model **node) { (void)p;(void)path;(void)device;(void)name;(void)node; return fail(RH_INVALID,"imports are not built yet"); }
