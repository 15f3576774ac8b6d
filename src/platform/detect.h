/* What this machine is: its GPUs as NVIDIA's driver lists them (NVML), and its tree as NCCL writes
 * it down, each by a library that is opened when asked. Making a node of that needs neither. */
#ifndef REHEARSE_PLATFORM_DETECT_H
#define REHEARSE_PLATFORM_DETECT_H

#include "platform/platform.h"

enum { DETECT_MOST_GPUS = 64, DETECT_MOST_LINKS = 32 };

struct detected_link {
    char to[32]; /* bus id of a GPU; empty: an NVSwitch */
    int count;
};

struct detected_gpu {
    char name[96];  /* "NVIDIA H200" */
    char busid[32]; /* "0000:1b:00.0", as the kernel and NCCL write it */
    double memory_bytes;
    int capability;                  /* 90 */
    int pcie_generation, pcie_lanes; /* 0: unknown */
    int numa_node;                   /* -1: unknown */
    struct detected_link links[DETECT_MOST_LINKS];
    int link_count;
};

struct detected {
    char driver[96];
    struct detected_gpu gpus[DETECT_MOST_GPUS];
    int gpu_count;
};

/* nvml.c. RH_FAILED "no NVIDIA driver: …" or "no GPU: …". $REHEARSE_NVML names another library. */
enum rh_status nvml_detect(struct detected *detected);
/* "570.86.15", or false. */
bool nvml_driver_version(char version[96]);

/* NCCL's topology file of this machine, made by a process of its own with all GPUs; NULL and the
 * reason recorded where NCCL is not there or fails. $REHEARSE_NCCL names another library. */
char *nccl_topology(int gpus);

/* The device file of a GPU by its name and memory; RH_FAILED names the nearest where none is it. */
enum rh_status detect_model(struct platform *platform, const struct detected_gpu *gpu,
                            const struct device_model **model);
/* The same facts as NCCL would write them, without NICs and switches of PCIe; the caller frees. */
char *detect_topology(const struct detected *detected);
/* A node of `topology`, an NCCL topology XML, or of `detected` alone where that is NULL. `device`
 * overrides the model's choice where not NULL. Owned by the platform. */
enum rh_status detect_node(struct platform *platform, const struct detected *detected,
                           const char *topology, const char *device, const char *name,
                           const struct node_model **node);

#endif
