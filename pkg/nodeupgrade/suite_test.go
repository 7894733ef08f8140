package nodeupgrade

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/test/apiserver"
)

// plane is access to an API server, on which the tests play the DaemonSet controller,
// the disruption controller, the kubelet and the node agent.
type plane struct {
	scheme *runtime.Scheme
	// admin has full access; config is the manager's, limited to its role.
	admin  client.Client
	config *rest.Config
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m))
}

func apiServer(t *testing.T) *plane {
	t.Helper()
	server := apiserver.Shared(t)
	return &plane{server.Scheme, server.Client(t, apiserver.Admin), server.As(apiserver.Operator)}
}
