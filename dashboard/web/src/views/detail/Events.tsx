import { Loading } from "../../components";

export default function Tab() {
  return <Loading />;
}
