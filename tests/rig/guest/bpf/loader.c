/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and attaches the struct_ops program it carries inside, and stays until it is told to go or the
 * kernel ejects it. It speaks as the usual schedulers do: `EXIT: reason (message)` on stderr, exit code
 * 0 after SIGTERM or SIGINT, 1 after an ejection or a failure.
 *
 * What is special about one is compiled in:
 *   PROGRAM             the path of the BPF object
 *   IGNORES_SIGTERM     only SIGINT and SIGKILL end it
 *   OUTLIVES_EJECTION   stays, link and all, after the kernel has ejected its scheduler
 *   REATTACHES          loads again, in the same process, when the kernel asks for a restart
 *   LOAD_DELAY_S        seconds it waits before it loads; --load-delay overrides
 *
 * Where LOSES_VICTIMS is compiled in, SIGUSR1 or --stall-after SECONDS starts a stall: a child process
 * named "victim" wakes up and is never run again, until the kernel's watchdog has seen enough.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "report.h"

#ifndef LOAD_DELAY_S
#define LOAD_DELAY_S 0
#endif
#ifndef IGNORES_SIGTERM
#define IGNORES_SIGTERM 0
#endif
#ifndef OUTLIVES_EJECTION
#define OUTLIVES_EJECTION 0
#endif
#ifndef REATTACHES
#define REATTACHES 0
#endif

#define POLL_MS 50
#define LAST_FRIENDLY_KIND 66 /* unregistered, by whomever; above it the kernel ejects */
#define RESTART_WANTED (1ULL << 48)

#define EXIT_USAGE 64

struct options {
	double load_delay_s;
	double stall_after_s; /* negative: only on SIGUSR1 */
};

extern const char program_start[], program_end[];

__asm__(".section .rodata\n"
	".balign 8\n"
	".global program_start, program_end\n"
	"program_start: .incbin \"" PROGRAM "\"\n"
	"program_end:\n"
	".previous\n");

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static double parse_seconds(const char *flag, const char *text)
{
	char *end = NULL;
	double value = text ? strtod(text, &end) : -1;

	if (text && end != text && *end == '\0' && value >= 0)
		return value;
	fprintf(stderr, "%s needs a number of seconds, for example: %s 5\n", flag, flag);
	exit(EXIT_USAGE);
}

static struct options parse_options(char **argv)
{
	struct options options = { .load_delay_s = LOAD_DELAY_S, .stall_after_s = -1 };

	for (argv++; *argv; argv += 2) {
		if (strcmp(*argv, "--load-delay") == 0) {
			options.load_delay_s = parse_seconds(argv[0], argv[1]);
		} else if (strcmp(*argv, "--stall-after") == 0) {
			options.stall_after_s = parse_seconds(argv[0], argv[1]);
		} else {
			fprintf(stderr, "unknown option %s; there are --load-delay and --stall-after\n", *argv);
			exit(EXIT_USAGE);
		}
	}
	return options;
}

/* Signals wait until they are asked for: no handler, no race, and the same as PID 1 of a container. */
static sigset_t orders(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	return set;
}

static int next_order(void)
{
	const struct timespec pause = { .tv_nsec = POLL_MS * 1000 * 1000 };
	sigset_t set = orders();
	int order = sigtimedwait(&set, NULL, &pause);

	if (order == SIGTERM && IGNORES_SIGTERM) {
		fprintf(stderr, "SIGTERM ignored\n");
		return 0;
	}
	return order > 0 ? order : 0;
}

static bool is_goodbye(int order)
{
	return order == SIGTERM || order == SIGINT;
}

/* False if it was told to go meanwhile. */
static bool wait_to_load(double delay_s)
{
	double until = now_s() + delay_s;

	if (delay_s > 0)
		printf("waiting %g s before loading\n", delay_s);
	while (now_s() < until)
		if (is_goodbye(next_order()))
			return false;
	return true;
}

static struct bpf_object *load(void)
{
	size_t size = program_end - program_start;
	struct bpf_object *object = bpf_object__open_mem(program_start, size, NULL);

	if (object && bpf_object__load(object) == 0)
		return object;
	fprintf(stderr, "load failed: %s\n", strerror(errno));
	bpf_object__close(object);
	return NULL;
}

static struct bpf_link *attach(struct bpf_object *object)
{
	struct bpf_link *link = NULL;
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			link = bpf_map__attach_struct_ops(map);
	if (!link)
		fprintf(stderr, "attach failed: %s\n", strerror(errno));
	return link;
}

/* The page shared with the kernel; a program that is no scheduler has none, and the kernel never ends it. */
static volatile struct report *report_of(struct bpf_object *object)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, REPORT_SECTION);

	int kind = map ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	int file = map ? bpf_map__fd(map) : -1;
	void *page = mmap(NULL, sizeof(struct report), PROT_READ | PROT_WRITE, kind, file, 0);

	if (page != MAP_FAILED)
		return page;
	fprintf(stderr, "mapping the report failed: %s\n", strerror(errno));
	exit(EXIT_FAILURE);
}

static pid_t start_victim(void)
{
	pid_t child = fork();

	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "victim");
	for (;;)
		usleep(1000);
}

/* To its very end: it has our link as well, and whoever closes the last one waits until the kernel is disabled. */
static void end(pid_t victim)
{
	if (victim <= 0)
		return;
	kill(victim, SIGKILL);
	waitpid(victim, NULL, 0);
}

/* Returns when the kernel has ejected us or we were told to go. */
static void watch(volatile struct report *report, double stall_after_s)
{
	double stall_at_s = now_s() + stall_after_s;
	bool may_stall = stall_after_s >= 0;
	pid_t victim = 0;
	int order = 0;

	while (!is_goodbye(order) && report->kind == 0) {
		order = next_order();
		if (victim == 0 && (order == SIGUSR1 || (may_stall && now_s() >= stall_at_s))) {
			report->lose_victims = 1;
			victim = start_victim();
		}
	}
	end(victim);
}

static int announce_end(const struct report *report)
{
	bool friendly = report->kind <= LAST_FRIENDLY_KIND;
	const char *message = report->message;

	if (report->kind != 0)
		fprintf(stderr, "%sEXIT: %s%s%s%s\n", friendly ? "" : "Error: ", report->reason,
			*message ? " (" : "", message, *message ? ")" : "");
	return friendly ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* One life of the scheduler, from load to its end; *again tells whether the kernel wants another. */
static int run_once(double stall_after_s, bool *again)
{
	struct bpf_object *object = load();
	struct bpf_link *link = object ? attach(object) : NULL;

	*again = false;
	if (!link) {
		bpf_object__close(object);
		return EXIT_FAILURE;
	}
	volatile struct report *report = report_of(object);
	printf("registered with the kernel\n"); /* which may still think better of it: init runs later */
	watch(report, stall_after_s);
	if (report->kind == 0) { /* told to go: the kernel reports when the link goes */
		bpf_link__destroy(link);
		link = NULL;
	}
	int code = announce_end((const struct report *)report);
	while (OUTLIVES_EJECTION && link && !is_goodbye(next_order()))
		;
	bpf_link__destroy(link);
	*again = REATTACHES && (report->exit_code & RESTART_WANTED);
	munmap((void *)report, sizeof(*report));
	bpf_object__close(object);
	return code;
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argv);
	sigset_t set = orders();
	bool again = true;
	int code = EXIT_SUCCESS;

	(void)argc;
	sigprocmask(SIG_BLOCK, &set, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!wait_to_load(options.load_delay_s))
		return EXIT_SUCCESS;
	while (again)
		code = run_once(options.stall_after_s, &again);
	return code;
}
