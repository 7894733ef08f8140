// Package hostagent executes the tasks of an upgrade that only the node itself can do: it
// pulls images ahead, restarts the container runtime, and reads the state of the driver. It
// needs no API server: pkg/hosttasks passes each task to Execute as a task.Request and
// reports the Results.
//
// Every task may be repeated at any time: whether it is done is read from the host, and a
// durable record shows what has begun (pkg/journal).
//
// # Restarting the runtime
//
// The restart ends the agent itself if the runtime stops its containers. So the request, with
// the current instance of the daemon, is stored on disk before the service manager is called,
// and the restarted agent decides from the state it finds:
//
//	         default runtime as wanted
//	(new) ------------------------------> Done, AlreadyDefault   no restart
//	  | --restart-runtime=false --------> Waiting                 an administrator restarts
//	  | no engine responds, or the
//	  |   running one does not ---------> Running                 retried
//	  | not configured, at first -------> Running                 retried
//	  | wrong configuration, no systemd -> Failed                 may be repeated
//	  v
//	begun: instance before, deadline
//	  |<-----------------------------------------------+
//	  | same instance, no restart in progress          |
//	  v                                                |
//	attempt recorded -> service manager called -> response recorded
//	  |
//	  | another instance
//	  |--- wanted default, own container runs ---------> Done, Restarted
//	  |--- another default -----------------------------> Failed
//	  |--- no response, service manager failed ---------> Running   with instructions
//	  |
//	  | deadline
//	  +------------------------------------------------> Failed
//
// An instance is a process of one boot (boot id, pid, start). At most one restart takes
// effect per operation (invariant S11): the service manager is called again only while the
// daemon is the same instance, its unit has no job or no process of the command is alive, and
// enough time has passed for a handed-over restart to show. A restart that has begun and
// ended always answers from its record; another restart needs another operation id.
//
// If the state directory is not writable, nothing is begun.
//
// # Files
//
//	task/                   pure: requests, results, the journal's records
//	restart/                pure: the next step of a restart
//	procfs/                 pure: what /proc reports about a process
//	options.go              what an Executor needs
//	executor.go, records.go one call at a time per task; the journal
//	restart.go, prepull.go  observe, decide, act
//	pullsecret.go           the credentials for an image
//	facts.go                the state of the node
//	defaults.go             when the default runtime was last changed
//	holders.go              the processes that have a device of the accelerator open
//	host.go, engine.go, docker.go, cri.go    the container engines behind their sockets (pkg/distribution)
//	hostfiles.go            files of the host, with its symbolic links
//	configured.go, instance.go               configuration files; process identity from /proc
//	servicemanager.go, command.go            systemd, or a command of the administrator
package hostagent
