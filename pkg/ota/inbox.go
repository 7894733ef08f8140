package ota

import (
	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/records"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// Inbox receives the requests of one node, journals them and shows them to the operator.
// Its methods are safe for concurrent use; changes are serialized.
type Inbox struct {
	statusReader
	podRequester
	operationStarter
	withdrawer
	holder
	*latest
	*loop
}

var _ endpoint.Backend = (*Inbox)(nil)

// NewInbox opens the journals. It returns an error if they cannot be opened in the state
// directory; it does not contact the API server.
func NewInbox(o Options) (*Inbox, error) {
	journals, err := records.Open(o.StateDirectory, o.Log)
	if err != nil {
		return nil, err
	}
	node, err := openNode(o)
	if err != nil {
		return nil, err
	}
	agent := topsv1.AgentStatus{Version: o.Version, Capabilities: o.Capabilities, RestartsRuntime: &o.RestartsRuntime, StartTime: request.Seconds(o.Clock.Now())}
	r := &reconciler{
		nodeName:  o.NodeName,
		cluster:   o.Cluster,
		clock:     o.Clock,
		log:       o.Log,
		node:      node,
		publisher: &publisher{nodeName: o.NodeName, agent: agent, cluster: o.Cluster, log: o.Log},
		latest:    newLatest(o.Clock),
		outOfStep: make(chan struct{}, 1),
		lock:      make(chan struct{}, 1),
		journals:  journals,
	}
	r.pulls = newPulls(o.Puller, func(id string, err error) {
		if err != nil {
			r.log.Error(err, "Could not pull images that were asked for at the node", "pull", id)
		}
		r.wake()
	})
	r.lock <- struct{}{}
	r.publish(nil)
	return &Inbox{statusReader{r}, podRequester{r}, operationStarter{r}, withdrawer{r, operationStarter{r}}, holder{r}, r.latest, &loop{reconciler: r}}, nil
}
