/* bench_measure RUNS COMMAND…: runs the command and prints the medians of a whole process, on one
 * line: wall seconds, user CPU seconds, peak resident MiB. Its output goes nowhere. Fails as the
 * command fails. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RUNS = 101 };

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_numbers);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void run_command(char **command)
{
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
        _exit(127);
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
}

/* The exit code of one run. wait4 counts the command's own children too, once it waited for them.
 */
static int measure(char **command, double *wall, double *user, double *mebibytes)
{
    struct rusage usage;
    int status = 0;
    double begin = seconds_now();
    pid_t child = fork();
    if (child == 0)
        run_command(command);
    if (child < 0 || wait4(child, &status, 0, &usage) != child) {
        perror("bench_measure");
        return 1;
    }
    *wall = seconds_now() - begin;
    *user = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6;
    *mebibytes = (double)usage.ru_maxrss / 1024;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    double wall[MOST_RUNS], user[MOST_RUNS], mebibytes[MOST_RUNS];
    int runs = argc > 2 ? atoi(argv[1]) : 0;
    if (runs < 1 || runs > MOST_RUNS) {
        fprintf(stderr, "usage: bench_measure RUNS COMMAND…   (RUNS from 1 to %d)\n", MOST_RUNS);
        return 2;
    }
    for (int i = 0; i < runs; i++) {
        int code = measure(argv + 2, &wall[i], &user[i], &mebibytes[i]);
        if (code != 0) {
            fprintf(stderr, "bench_measure: '%s' exits %d, 0 expected\n", argv[2], code);
            return code;
        }
    }
    printf("%.6f %.6f %.2f\n", median(wall, runs), median(user, runs), median(mebibytes, runs));
    return 0;
}
