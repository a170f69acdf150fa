/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a pod's namespaces alive: waits for the signal to go and buries orphans meanwhile. */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

int main(void)
{
	sigset_t set;
	int order = SIGCHLD;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	while (order == SIGCHLD) {
		sigwait(&set, &order);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	return 0;
}
