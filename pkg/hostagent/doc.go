// Package hostagent does the tasks of an upgrade that only the node itself can
// do: it pulls images ahead, restarts the container runtime, and reads what the
// driver shows. It needs no API server: pkg/hosttasks hands each task to Execute as a
// task.Request and shows the Results.
//
// Every task may be executed again at any time: that it is done is read off the
// host, and a durable record says what was begun (pkg/journal).
//
// # Restarting the runtime
//
// The restart ends the agent itself where the runtime stops containers. So the
// request, with the instance of the daemon that is to go, is on disk before
// anything is asked, and the agent that comes back decides by what it finds:
//
//	         default runtime as wanted
//	(new) ------------------------------> Done, AlreadyDefault   nothing is disturbed
//	  | --restart-runtime=false --------> Waiting                 an administrator restarts
//	  | no engine answers --------------> Running                 looks again
//	  | not configured, at first -------> Running                 looks again
//	  | wrong configuration, no systemd -> Failed                 may be executed again
//	  v
//	begun: instance before, deadline
//	  |<-----------------------------------------------+
//	  | same instance, nothing going on                |
//	  v                                                |
//	attempt recorded -> service manager asked -> answer recorded
//	  |
//	  | another instance
//	  |--- wanted default, own container runs ---------> Done, Restarted
//	  |--- another default -----------------------------> Failed
//	  |--- no answer, the service manager failed -------> Running   says what to do
//	  |
//	  | deadline
//	  +------------------------------------------------> Failed
//
// An instance is a process of one boot (boot id, pid, start). At most one
// restart takes effect per operation (invariant S11): the service manager is
// asked again only while the daemon is the instance it was, the unit has no job
// or no process of the command lives, and some time has passed in which a
// handed-over restart would have shown. A restart that was begun and has ended
// answers from its record for ever; another one needs another operation id.
//
// When the state directory cannot be written, nothing is begun.
//
// # Files
//
//	task/                   pure: what is asked, what became of it, the journal's records
//	restart/                pure: what a restart needs next
//	executor.go, records.go one call at a time per task; the journal
//	restart.go, prepull.go  observe, decide, act
//	facts.go                what the node shows
//	host.go, engine.go, docker.go, cri.go    the container engines behind their sockets
//	configured.go, instance.go               what configuration files and /proc say
//	servicemanager.go, command.go            systemd, or a command of the administrator
package hostagent
