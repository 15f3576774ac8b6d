/* bench_bare_simgrid PLATFORM.xml: starts SimGrid as the backend does, loads a platform, and ends.
 * What a whole process of ours costs above this is ours; below it lies SimGrid's own start. */
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    simgrid_init(&argc, argv);
    if (argc != 2) {
        fprintf(stderr, "usage: bench_bare_simgrid PLATFORM.xml\n");
        return 2;
    }
    simgrid_load_platform(argv[1]);
    printf("%zu hosts\n", sg_host_count());
    return 0;
}
