// The shop operator: a Shop becomes a Deployment and a Service. It uses what operators written with controller-runtime
// usually use: leader election, webhooks for defaults, validation and conversion, finalizers, owner references, an
// index, predicates, server-side apply, the status subresource and events.
package main

import (
	"flag"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"sampan.test/operator/api"
)

func main() {
	identity := flag.String("identity", "", "the name of this replica, written to the status of the shops that it reconciles")
	namespace := flag.String("leader-namespace", "default", "the namespace of the lease")
	certificates := flag.String("certificates", "", "the directory with tls.crt and tls.key of the webhook server")
	webhookPort := flag.Int("webhook-port", 9443, "the port of the webhook server")
	probe := flag.String("probe", "", "the address that serves /readyz")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	if err := run(*identity, *namespace, *certificates, *webhookPort, *probe); err != nil {
		ctrl.Log.Error(err, "the operator has failed")
		os.Exit(1)
	}
}

func run(identity, namespace, certificates string, webhookPort int, probe string) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	api.AddToScheme(scheme)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 500
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &formatLog{next: next} })
	lease, renew, retry := 2*time.Second, 1500*time.Millisecond, 200*time.Millisecond
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        probe,
		LeaderElection:                true,
		LeaderElectionID:              "shop-operator",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		WebhookServer:                 webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: webhookPort, CertDir: certificates}),
	})
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return err
	}
	if err := setUpReconciler(mgr, identity); err != nil {
		return err
	}
	if err := setUpWebhooks(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// formatLog logs each format in which the server responds for a resource, once.
type formatLog struct {
	next http.RoundTripper
	seen sync.Map
}

func (format *formatLog) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := format.next.RoundTrip(request)
	if err == nil {
		words := strings.Split(request.URL.Path, "/")
		resource := words[len(words)-1]
		line := resource + " as " + response.Header.Get("Content-Type")
		if _, known := format.seen.LoadOrStore(line, true); !known {
			ctrl.Log.Info("format: " + line)
		}
	}
	return response, err
}
