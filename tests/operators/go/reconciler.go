package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"sampan.test/operator/api"
)

const (
	finalizer   = api.Group + "/cleanup"
	configIndex = "spec.configMapName"
	manager     = "shop-operator"
)

type reconciler struct {
	client.Client
	identity string
	recorder events.EventRecorder
}

func setUpReconciler(mgr ctrl.Manager, identity string) error {
	shops := &reconciler{Client: mgr.GetClient(), identity: identity, recorder: mgr.GetEventRecorder(manager)}
	index := func(object client.Object) []string { return []string{object.(*api.Shop).Spec.ConfigMapName} }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &api.Shop{}, configIndex, index); err != nil {
		return err
	}
	isWatched, err := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchLabels: map[string]string{"watched": "yes"}})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.Shop{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(shops.usersOf), builder.WithPredicates(isWatched)).
		Complete(shops)
}

// usersOf returns the shops that name a config map, from the index.
func (shops *reconciler) usersOf(ctx context.Context, config client.Object) []reconcile.Request {
	var users api.ShopList
	selection := client.MatchingFields{configIndex: config.GetName()}
	if err := shops.List(ctx, &users, selection, client.InNamespace(config.GetNamespace())); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, len(users.Items))
	for _, shop := range users.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&shop)})
	}
	return requests
}

func (shops *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var shop api.Shop
	if err := shops.Get(ctx, request.NamespacedName, &shop); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !shop.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, shops.cleanUp(ctx, &shop)
	}
	if controllerutil.AddFinalizer(&shop, finalizer) {
		if err := shops.Update(ctx, &shop); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := shops.applyDeployment(ctx, &shop); err != nil {
		return ctrl.Result{}, err
	}
	if err := shops.writeService(ctx, &shop); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, shops.writeStatus(ctx, &shop)
}

// cleanUp leaves a config map, which nobody owns, as the trace of a shop that is deleted.
func (shops *reconciler) cleanUp(ctx context.Context, shop *api.Shop) error {
	if !controllerutil.ContainsFinalizer(shop, finalizer) {
		return nil
	}
	trace := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: shop.Name + "-closed", Namespace: shop.Namespace}}
	if err := shops.Create(ctx, trace); client.IgnoreAlreadyExists(err) != nil && !apierrors.IsForbidden(err) {
		return err
	}
	shops.recorder.Eventf(shop, nil, corev1.EventTypeNormal, "Closed", "CleanUp", "closed %s", shop.Name)
	controllerutil.RemoveFinalizer(shop, finalizer)
	return client.IgnoreNotFound(shops.Update(ctx, shop))
}

// applyDeployment uses server-side apply: fields of other managers, such as kubectl's annotations, are kept.
func (shops *reconciler) applyDeployment(ctx context.Context, shop *api.Shop) error {
	labels := map[string]string{"shop": shop.Name}
	owner := metaapply.OwnerReference().WithAPIVersion(api.V1.String()).WithKind("Shop").WithName(shop.Name).
		WithUID(shop.UID).WithController(true).WithBlockOwnerDeletion(true)
	container := coreapply.Container().WithName("shop").WithImage(shop.Spec.Image)
	template := coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(coreapply.PodSpec().WithContainers(container))
	deployment := appsapply.Deployment(shop.Name, shop.Namespace).WithOwnerReferences(owner).WithLabels(labels).
		WithSpec(appsapply.DeploymentSpec().WithReplicas(shop.Spec.Replicas).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).WithTemplate(template))
	return shops.Apply(ctx, deployment, client.FieldOwner(manager), client.ForceOwnership)
}

// writeService creates or updates the whole object, in protobuf.
func (shops *reconciler) writeService(ctx context.Context, shop *api.Shop) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: shop.Name, Namespace: shop.Namespace}}
	outcome, err := controllerutil.CreateOrUpdate(ctx, shops.Client, service, func() error {
		service.Spec.Selector = map[string]string{"shop": shop.Name}
		service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
		return controllerutil.SetControllerReference(shop, service, shops.Scheme())
	})
	if err == nil && outcome == controllerutil.OperationResultCreated {
		shops.recorder.Eventf(shop, service, corev1.EventTypeNormal, "Opened", "Create", "opened %s", shop.Name)
	}
	return err
}

func (shops *reconciler) writeStatus(ctx context.Context, shop *api.Shop) error {
	before := shop.DeepCopy()
	var deployment appsv1.Deployment
	if err := shops.Get(ctx, client.ObjectKeyFromObject(shop), &deployment); client.IgnoreNotFound(err) != nil {
		return err
	}
	if shop.Spec.ConfigMapName != "" {
		var config corev1.ConfigMap
		key := types.NamespacedName{Namespace: shop.Namespace, Name: shop.Spec.ConfigMapName}
		if err := shops.Get(ctx, key, &config); client.IgnoreNotFound(err) != nil {
			return err
		}
		shop.Status.ConfigVersion = config.Data["version"]
	}
	shop.Status.ObservedGeneration = shop.Generation
	shop.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	shop.Status.Operator = shops.identity
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waiting", ObservedGeneration: shop.Generation}
	if deployment.Status.ReadyReplicas == shop.Spec.Replicas {
		ready.Status, ready.Reason = metav1.ConditionTrue, "AllReady"
	}
	meta.SetStatusCondition(&shop.Status.Conditions, ready)
	return shops.Status().Patch(ctx, shop, client.MergeFrom(before))
}
